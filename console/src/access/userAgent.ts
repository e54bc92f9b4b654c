import {visible} from '../visible';

/** In this order: most browsers name others behind their own name. */
const BROWSERS = [['Edg', 'Edge'], ['OPR', 'Opera'], ['Firefox', 'Firefox'], ['FxiOS', 'Firefox'], ['Chrome', 'Chrome'], ['CriOS', 'Chrome'],
  ['Safari', 'Safari']] as const;
const SYSTEMS = ['Android', 'iPhone', 'iPad', 'Windows', 'Mac OS X', 'Linux'] as const;

/** A browser and its system by the name that it sends, which is as it is if neither is known. */
export function browserOf(label: string): string {
  const browser = BROWSERS.find(([sent]) => label.includes(`${sent}/`));
  const system = SYSTEMS.find((one) => label.includes(one));
  return browser === undefined || system === undefined ? visible(label) : `${browser[1]} · ${system}`;
}
