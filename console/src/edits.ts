/** The edits of files in a tool's input, in the forms that agents use: the same as the gateway's own cards find. */

/** A change of one file. `old` is null if the text before it is not known; with `patch`, `text` is a diff. */
export interface Edit {
  path: string;
  text: string;
  old: string | null;
  patch: boolean;
}

/** Edits, and the members that they show wholly. */
export interface Found {
  edits: Edit[];
  used: ReadonlySet<string>;
}

type Members = Record<string, unknown>;

const PATHS = ['file_path', 'path', 'filePath', 'fileName', 'file_name', 'filename', 'filepath', 'pathname', 'notebook_path',
  'notebookPath', 'target_file', 'absolute_path', 'file', 'uri'];
const OLD = ['old_string', 'oldString', 'oldText', 'old_text', 'old_str', 'oldStr', 'old'];
const NEW = ['new_string', 'newString', 'newText', 'new_text', 'new_str', 'newStr', 'new', 'new_source', 'newSource'];
const WHOLE = ['content', 'contents', 'file_text', 'fileText', 'text'];
const PATCHES = ['patch', 'diff', 'patch_text', 'patchText', 'input'];
const PATCH_STARTS = ['*** Begin Patch', 'diff --git ', '--- '];
const FILE_STARTS = ['*** Add File: ', '*** Update File: ', '*** Delete File: ', '+++ ', '--- '];
/** What the `command` of a text editor says; no shell gets it. */
const EDITOR = new Set(['create', 'str_replace', 'insert', 'view', 'undo_edit']);
const NOTHING: Found = {edits: [], used: new Set()};

/** The members of a JSON object; null if it is none. */
export function members(value: unknown): Members | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value as Members : null;
}

function first(given: Members, names: readonly string[]): string | null {
  return names.find((name) => typeof given[name] === 'string') ?? null;
}

/** Find the edits of a tool's input. */
export function editsOf(given: Members): Found {
  const where = first(given, PATHS);
  if (where === null) return patchOf(given);
  const path = given[where] as string;
  if (Array.isArray(given.edits) && given.edits.length > 0) {
    const pairs = given.edits.map((one) => pairOf(path, one));
    if (pairs.every((one) => one !== null)) return {edits: pairs, used: new Set([where, 'edits'])};
  }
  const verb = typeof given.command === 'string' && EDITOR.has(given.command) ? ['command'] : [];
  const old = first(given, OLD);
  const added = first(given, NEW);
  if (added !== null) {
    return {edits: [{path, text: given[added] as string, old: old === null ? null : given[old] as string, patch: false}],
      used: new Set([...verb, where, added, ...(old === null ? [] : [old])])};
  }
  const whole = first(given, WHOLE);
  if (whole === null) return patchOf(given);
  return {edits: [{path, text: given[whole] as string, old: null, patch: false}], used: new Set([...verb, where, whole])};
}

/** One of several edits of a file; null if it has a member that a diff would not show. */
function pairOf(path: string, value: unknown): Edit | null {
  const pair = members(value);
  if (pair === null) return null;
  const [old, added] = [first(pair, OLD), first(pair, NEW)];
  if (added === null || Object.keys(pair).some((name) => name !== old && name !== added)) return null;
  return {path, text: pair[added] as string, old: old === null ? null : pair[old] as string, patch: false};
}

function patchOf(given: Members): Found {
  for (const name of PATCHES) {
    const text = given[name];
    if (typeof text === 'string' && PATCH_STARTS.some((start) => text.trimStart().startsWith(start))) {
      return {edits: [{path: filesOf(text), text, old: null, patch: true}], used: new Set([name])};
    }
  }
  return NOTHING;
}

/** The files that a patch names, as its lines write them. */
function filesOf(patch: string): string {
  const names = patch.split('\n').flatMap((line) => FILE_STARTS.filter((start) => line.startsWith(start))
    .map((start) => (line.slice(start.length).split('\t')[0] ?? '').replace(/^a\//, '').replace(/^b\//, '')));
  return [...new Set(names)].filter((name) => name !== '/dev/null').join(', ');
}

/** The edit that an item of ACP's content, or of a tool's result, shows wholly; null if it is another one. */
export function shownEdit(value: unknown): Edit | null {
  const item = members(value);
  if (item === null) return null;
  const {type, path, newText, oldText, new_text: text = newText, old_text: old = oldText ?? null, ...rest} = item;
  if ((type !== undefined && type !== 'diff') || typeof path !== 'string' || typeof text !== 'string'
    || (typeof old !== 'string' && old !== null) || Object.keys(rest).length > 0) return null;
  return {path, text, old: old ?? '', patch: false};
}
