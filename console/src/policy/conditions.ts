export type Rule = Record<string, unknown>;

const NOT_CONDITIONS = new Set(['name', 'source', 'effect']);

/** Return the conditions of a rule, each as it is written in the config. */
export function conditions(rule: Rule): string[] {
  return Object.entries(rule).filter(([name]) => !NOT_CONDITIONS.has(name)).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
}
