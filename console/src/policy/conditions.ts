export type Rule = Record<string, unknown>;

const UNSHOWN = new Set(['name', 'source', 'effect']);

/** What a rule asks of a call, each as the config would say it. */
export function conditions(rule: Rule): string[] {
  return Object.entries(rule).filter(([name]) => !UNSHOWN.has(name)).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
}
