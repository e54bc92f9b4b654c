/** Durations in the units of the command line: "1.3 s", "12 min", "3 h", "2 d". */
import {i18n} from './i18n.svelte';

/** The units: the duration below which one is used, its size, and its names in English and Korean. */
const UNITS = [
  {below_s: 90, size_s: 1, en: ' s', ko: '초'},
  {below_s: 90 * 60, size_s: 60, en: ' min', ko: '분'},
  {below_s: 48 * 3_600, size_s: 3_600, en: ' h', ko: '시간'},
  {below_s: Infinity, size_s: 86_400, en: ' d', ko: '일'},
];

export function duration(ms: number): string {
  const {size_s, ...names} = UNITS.find((one) => ms < one.below_s * 1_000)!;
  return (ms / 1_000 / size_s).toFixed(size_s === 1 ? 1 : 0) + names[i18n.language];
}
