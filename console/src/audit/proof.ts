/** Proofs from the Merkle tree of an audit log (RFC 9162), and the one record that a proof is about. */
import {isEqual, nodeOf, sha256, unhex, type Bytes} from './bytes';
import {canonical} from './canonical';
import {readLine, type Line} from './record';

/** A tree of 2^53 records has no longer path, and a proof of consistency at most one hash more. */
const HASHES_MAX = 54;
const HASH = /^[0-9a-f]{64}$/;

/** The hashes of a proof as the gateway writes them; null if they are anything else. */
export function hashesOf(sent: unknown): Bytes[] | null {
  if (!Array.isArray(sent) || sent.length > HASHES_MAX) return null;
  const texts: unknown[] = sent;
  return texts.every((one): one is string => typeof one === 'string' && HASH.test(one)) ? texts.map(unhex) : null;
}

/** Whether a proof leads from leaf `index`, counted from 0, to the root over `size` leaves (RFC 9162, 2.1.3.2). */
export function includes(leaf: Bytes, index: number, size: number, proof: readonly Bytes[], root: Bytes): boolean {
  if (index < 0 || index >= size) return false;
  const climb = new Climb(index, size - 1);
  let hash = leaf;
  for (const sibling of proof) {
    if (climb.last === 0) return false;
    hash = climb.isRight() ? nodeOf(sibling, hash) : nodeOf(hash, sibling);
    climb.up();
  }
  return climb.last === 0 && isEqual(hash, root);
}

/** Whether the tree of `first` leaves is the beginning of that of `second` (RFC 9162, 2.1.4.2). */
export function continues(
  first: number, firstRoot: Bytes, second: number, secondRoot: Bytes, proof: readonly Bytes[],
): boolean {
  if (first === second) return proof.length === 0 && isEqual(firstRoot, secondRoot);
  if (first === 0) return proof.length === 0 && isEqual(firstRoot, sha256(new Uint8Array()));
  if (first > second || proof.length === 0) return false;
  const climb = new Climb(first - 1, second - 1);
  while (climb.place % 2 === 1) climb.level();
  // A first tree that is a whole subtree of the second is not in the proof: its root is known.
  const [top, ...path] = climb.place === 0 ? [firstRoot, ...proof] : proof;
  if (top === undefined) return false;
  let [before, after] = [top, top];
  for (const sibling of path) {
    if (climb.last === 0) return false;
    if (climb.isRight()) [before, after] = [nodeOf(sibling, before), nodeOf(sibling, after)];
    else after = nodeOf(after, sibling);
    climb.up();
  }
  return climb.last === 0 && isEqual(before, firstRoot) && isEqual(after, secondRoot);
}

/** The place of a node and of the last one in its level, on the way up; by division, as sizes exceed 32 bits. */
class Climb {
  constructor(public place: number, public last: number) {}

  /** Whether the sibling is on the left: of a right child, and of the last node of a level that has none of its own. */
  isRight(): boolean {
    return this.place % 2 === 1 || this.place === this.last;
  }

  up(): void {
    if (this.isRight()) while (this.place % 2 === 0 && this.place !== 0) this.level();
    this.level();
  }

  level(): void {
    this.place = Math.floor(this.place / 2);
    this.last = Math.floor(this.last / 2);
  }
}

/** Read a record as the page shows it, in the form that its line of an export has; null if it has another, if its hash
 * is not that of its bytes, or if a personal value is not the one that it commits to. */
export function shownLine(shown: {seq: number; hash: string; personal?: unknown; record: unknown}): Line | null {
  const personal = shown.personal === undefined || shown.personal === null ? ''
    : `"personal":${canonical(shown.personal)},`;
  const text = `{"seq":${shown.seq},"hash":${JSON.stringify(shown.hash)},${personal}"record":${canonical(shown.record)}}\n`;
  const line = readLine(new TextEncoder().encode(text));
  if (line === null || !line.isOpened || line.seq !== line.record.seq) return null;
  return isEqual(line.digest, unhex(line.hash)) ? line : null;
}
