import {visible} from '../visible';

/** Tested in this order: most user agents also name other browsers after their own. */
const BROWSERS = [['Edg', 'Edge'], ['OPR', 'Opera'], ['Firefox', 'Firefox'], ['FxiOS', 'Firefox'], ['Chrome', 'Chrome'], ['CriOS', 'Chrome'],
  ['Safari', 'Safari']] as const;
const SYSTEMS = ['Android', 'iPhone', 'iPad', 'Windows', 'Mac OS X', 'Linux'] as const;

/** Return the browser and operating system of a user agent; an unknown user agent is returned with hidden characters
 * escaped. */
export function describeUserAgent(label: string): string {
  const browser = BROWSERS.find(([token]) => label.includes(`${token}/`));
  const system = SYSTEMS.find((one) => label.includes(one));
  return browser === undefined || system === undefined ? visible(label) : `${browser[1]} · ${system}`;
}
