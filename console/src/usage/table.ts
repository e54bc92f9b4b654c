/** Rows of a usage report, for the screen and for a spreadsheet. */
import type {components} from '../api.generated';

export type Report = components['schemas']['UsageReport'];
export type Item = components['schemas']['UsageItem'];
export const DIMENSIONS = ['day', 'agent', 'model', 'session', 'person'] as const;
export type Dimension = typeof DIMENSIONS[number];

const FIGURES = ['turns', 'input_tokens', 'output_tokens', 'cache_read_tokens', 'cache_write_tokens', 'total_tokens', 'cost_usd'] as const;
/** Spreadsheets interpret a cell that starts with one of these characters as a formula. */
const FORMULA = /^[=+\-@\t\r]/;

/** Return an item's value of the dimension; "" if it was not reported. */
export function nameOf(item: Item, by: Dimension): string {
  switch (by) {
    case 'day': return item.day ?? '';
    case 'agent': return item.agent_id ?? '';
    case 'session': return item.session_id ?? '';
    case 'model': return item.model ?? '';
    case 'person': return item.person ?? '';
  }
}

function cell(text: string): string {
  return `"${(FORMULA.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}

/** Format a report as CSV (RFC 4180). */
export function toCsv(report: Report, by: Dimension): string {
  const rows = report.items.map((item) => [cell(nameOf(item, by)), ...FIGURES.map((name) => String(item[name]))]);
  return [[by, ...FIGURES], ...rows].map((row) => `${row.join(',')}\r\n`).join('');
}
