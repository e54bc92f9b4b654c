/** The canonical form of JSON (RFC 8785), for the values that an audit record may hold. */

const MAX_DEPTH = 16;
const NON_ASCII = /[^\0-\x7f]/;
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

/** Serialize a parsed value in canonical form: members sorted by UTF-16 code units, no whitespace. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = value as Record<string, unknown>;
  return `{${Object.keys(members).sort().map((name) => `${JSON.stringify(name)}:${canonical(members[name])}`).join(',')}}`;
}

/** Whether a value has only strings, booleans, integers below 2^53, arrays, and objects with ASCII names. */
export function isPlain(value: unknown, depth = 0): boolean {
  if (typeof value === 'string') return !LONE_SURROGATE.test(value);
  if (typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isSafeInteger(value);
  if (depth >= MAX_DEPTH || typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.every((one) => isPlain(one, depth + 1));
  return Object.entries(value).every(([name, one]) => !NON_ASCII.test(name) && isPlain(one, depth + 1));
}
