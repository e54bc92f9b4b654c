/** The difference of two texts by lines, as `diff -u` writes it. */
import type {Edit} from './edits';
import {steps} from './myersDiff';

/** Texts of more lines are shown as removed and added whole: comparing them would take too long. */
const MAX_COMPARED_LINES = 4_000;
/** So are texts that differ in more lines. */
const MAX_DIFFERENT_LINES = 2_000;
/** Unchanged lines around a change that are shown of a folded one. */
const CONTEXT_LINES = 3;
/** A change of more rows is folded. */
const FOLD_ROWS = 60;

/** One row. `at` is the head of a hunk or of a patch's file, `note` our own words. */
export interface Row {
  kind: 'added' | 'removed' | 'same' | 'at' | 'note';
  text: string;
}

export interface Change {
  path: string;
  added: number;
  removed: number;
  /** Every line of both texts. */
  rows: Row[];
  /** The first of them that matter, if there are too many; null if none is left out. */
  folded: Row[] | null;
}

const SIGN = {added: '+', removed: '-', same: ' ', at: '', note: ''} as const;

/** A row as it is written. */
export function written(row: Row): string {
  return SIGN[row.kind] + row.text;
}

/** Work out what an edit changes. */
export function changeOf(edit: Edit): Change {
  const rows = edit.patch ? edit.text.split('\n').map(patchRow) : compared(linesOf(edit.old ?? ''), linesOf(edit.text));
  const [added, removed] = [count(rows, 'added'), count(rows, 'removed')];
  const isCompared = !edit.patch && edit.old !== null && added + removed > 0;
  const whole = [...isCompared ? [head(rows, 1, 1), ...rows] : rows, ...endNote(edit)];
  const folded = whole.length <= FOLD_ROWS ? null : (isCompared ? hunks(rows) : rows).slice(0, FOLD_ROWS);
  return {path: edit.path, added, removed, rows: whole, folded};
}

/** Read a file's part of what git wrote as a patch. Before a hunk everything is a head; in one, the first character says
 * what a line is, whatever follows it. */
export function patchOf(file: {path: string; diff?: string; added?: number | null; removed?: number | null}): Change {
  let isHead = true;
  const rows = (file.diff ?? '').split('\n').map((line): Row => {
    if (line.startsWith('diff --git ')) isHead = true;
    if (line.startsWith('@@')) isHead = false;
    return isHead || line.startsWith('@@') ? {kind: 'at', text: line} : hunkRow(line);
  });
  const folded = rows.length <= FOLD_ROWS ? null : rows.slice(0, FOLD_ROWS);
  return {path: file.path, added: file.added ?? count(rows, 'added'), removed: file.removed ?? count(rows, 'removed'), rows,
    folded};
}

function hunkRow(line: string): Row {
  const kind = line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : line.startsWith(' ') ? 'same' : null;
  return kind === null ? {kind: 'note', text: line} : {kind, text: line.slice(1)};
}

function count(rows: readonly Row[], kind: Row['kind']): number {
  return rows.filter((row) => row.kind === kind).length;
}

/** Lines as a text file has them. Other line separators stay inside, where they are made visible. */
function linesOf(text: string): string[] {
  const found = text.split('\n');
  return found.at(-1) === '' ? found.slice(0, -1) : found;
}

function rowsOf(kind: Row['kind'], lines: readonly string[]): Row[] {
  return lines.map((text) => ({kind, text}));
}

function compared(old: readonly string[], lines: readonly string[]): Row[] {
  const found = old.length === 0 || old.length + lines.length > MAX_COMPARED_LINES ? null
    : steps(old, lines, MAX_DIFFERENT_LINES);
  return found ?? [...rowsOf('removed', old), ...rowsOf('added', lines)];
}

/** The changes with the lines around them, each with its head. */
function hunks(rows: readonly Row[]): Row[] {
  const near = rows.map(() => false);
  rows.forEach((row, at) => {
    if (row.kind !== 'same') near.fill(true, Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1);
  });
  const out: Row[] = [];
  let [old, added] = [1, 1];
  for (let at = 0; at < rows.length;) {
    const from = at;
    while (at < rows.length && near[at] === near[from]) at += 1;
    const part = rows.slice(from, at);
    if (near[from] === true) out.push(head(part, old, added), ...part);
    old += part.length - count(part, 'added');
    added += part.length - count(part, 'removed');
  }
  return out;
}

/** The head of a hunk that begins at these lines. */
function head(rows: readonly Row[], old: number, added: number): Row {
  const [before, after] = [rows.length - count(rows, 'added'), rows.length - count(rows, 'removed')];
  return {kind: 'at', text: `@@ -${span(old, before)} +${span(added, after)} @@`};
}

function span(first: number, count: number): string {
  return count === 1 ? `${first}` : `${count === 0 ? first - 1 : first},${count}`;
}

function patchRow(line: string): Row {
  if (/^(?:@@|\*\*\*|diff |\+\+\+ |--- )/.test(line)) return {kind: 'at', text: line};
  const row = hunkRow(line);
  return row.kind === 'note' ? {kind: 'at', text: line} : row;
}

/** Name the end of the last line if the texts differ in it, or the whole file is written without. */
function endNote(edit: Edit): Row[] {
  if (edit.patch || edit.text === '') return [];
  const ends = edit.text.endsWith('\n');
  const ended = edit.old === null || edit.old === '' ? true : edit.old.endsWith('\n');
  if (ends === ended) return [];
  return [{kind: 'note', text: ends ? '\\ No newline at end of the old text' : '\\ No newline at end of the new text'}];
}
