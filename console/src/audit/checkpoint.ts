/** A checkpoint of an audit log: a signed note (c2sp.org/tlog-checkpoint), and the Merkle tree (RFC 6962) below it. */
import {concat, isEqual, nodeHash, sha256, unbase64, utf8, type Bytes} from './bytes';
import {canonical} from './canonical';

export interface Checkpoint {
  /** The unaltered note, for storage. */
  note: string;
  origin: string;
  size: number;
  root: Bytes;
}

const CONTROL = /[\0-\x09\x0b-\x1f]/;
const SIZE = /^(?:0|[1-9][0-9]{0,15})$/;
const NOTE_MAX = 8192;
const SIGNATURES_MAX = 16;
const ED25519 = 1;
const HASH_BYTES = 32;

/** Parse and verify the last line of an export; null if it is not a checkpoint with a valid signature of this key. */
export async function verifiedLine(line: string, key: Bytes): Promise<Checkpoint | null> {
  try {
    const {checkpoint} = JSON.parse(line) as {checkpoint: unknown};
    if (typeof checkpoint !== 'string' || `${canonical({checkpoint})}\n` !== line) return null;
    return await verifiedNote(checkpoint, key);
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) return null;
    throw error;
  }
}

/** Parse and verify a note; null if it is not a checkpoint with a valid signature of this key. */
export async function verifiedNote(note: string, key: Bytes): Promise<Checkpoint | null> {
  const separator = note.lastIndexOf('\n\n');
  if (separator < 0 || note.length > NOTE_MAX || CONTROL.test(note) || !note.endsWith('\n')) return null;
  const text = note.slice(0, separator + 1);
  const [origin = '', size = '', rootText = '', ...more] = note.slice(0, separator).split('\n');
  const root = unbase64(rootText);
  const signatures = note.slice(separator + 2, -1).split('\n');
  if (!origin.startsWith('interlock.audit/') || !SIZE.test(size) || root?.length !== HASH_BYTES
    || more.includes('') || signatures.length > SIGNATURES_MAX) return null;
  const keyId = sha256(concat(utf8(`${origin}\n`), new Uint8Array([ED25519]), key)).subarray(0, 4);
  const publicKey = await crypto.subtle.importKey('raw', key, {name: 'Ed25519'}, false, ['verify']);
  let isSigned = false;
  for (const line of signatures) {
    const [prefix, name = '', encoded = '', ...rest] = line.split(' ');
    const signature = unbase64(encoded);
    if (prefix !== '—' || name === '' || name.includes('+') || rest.length > 0 || signature === null
      || signature.length < 5) return null;
    if (name !== origin || !isEqual(signature.subarray(0, 4), keyId)) continue;
    if (!await crypto.subtle.verify({name: 'Ed25519'}, publicKey, signature.subarray(4), utf8(text))) return null;
    isSigned = true;
  }
  return isSigned ? {note, origin, size: Number(size), root} : null;
}

/** Return the root of the Merkle tree over leaf hashes: nodes are hashed in pairs, level by level; an odd one moves up. */
export function rootOf(leaves: readonly Bytes[]): Bytes {
  let level = leaves;
  while (level.length > 1) {
    const above: Bytes[] = [];
    for (let at = 0; at < level.length; at += 2) {
      const left = level[at] as Bytes;
      const right = level[at + 1];
      above.push(right === undefined ? left : nodeHash(left, right));
    }
    level = above;
  }
  return level[0] ?? sha256(new Uint8Array());
}
