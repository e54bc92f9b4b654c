/** Verifies proofs of inclusion and consistency of an audit log's Merkle tree (RFC 9162), and the record that a proof is
 * about. */
import {isEqual, nodeHash, sha256, unhex, type Bytes} from './bytes';
import {canonical} from './canonical';
import {readLine, type Line} from './record';

/** The length of a path in a tree of 2^53 records, plus the one hash that a proof of consistency may have in addition. */
const MAX_HASHES = 54;
const HASH_PATTERN = /^[0-9a-f]{64}$/;

/** Parse the hashes of a proof; null if the value is not a list of hashes. */
export function parseHashes(value: unknown): Bytes[] | null {
  if (!Array.isArray(value) || value.length > MAX_HASHES) return null;
  const texts: unknown[] = value;
  return texts.every((one): one is string => typeof one === 'string' && HASH_PATTERN.test(one)) ? texts.map(unhex) : null;
}

/** Verify a proof of inclusion of the leaf at `index`, from 0, in the tree of `size` leaves (RFC 9162, 2.1.3.2). */
export function verifyInclusion(leaf: Bytes, index: number, size: number, proof: readonly Bytes[], root: Bytes): boolean {
  if (index < 0 || index >= size) return false;
  const path = new PathToRoot(index, size - 1);
  let hash = leaf;
  for (const sibling of proof) {
    if (path.last === 0) return false;
    hash = path.hasLeftSibling() ? nodeHash(sibling, hash) : nodeHash(hash, sibling);
    path.up();
  }
  return path.last === 0 && isEqual(hash, root);
}

/** Verify a proof that the tree of `first` leaves is a prefix of the tree of `second` leaves (RFC 9162, 2.1.4.2). */
export function verifyConsistency(
  first: number, firstRoot: Bytes, second: number, secondRoot: Bytes, proof: readonly Bytes[],
): boolean {
  if (first === second) return proof.length === 0 && isEqual(firstRoot, secondRoot);
  if (first === 0) return proof.length === 0 && isEqual(firstRoot, sha256(new Uint8Array()));
  if (first > second || proof.length === 0) return false;
  const path = new PathToRoot(first - 1, second - 1);
  while (path.index % 2 === 1) path.shift();
  // If the first tree is a complete subtree of the second, its root is known and not in the proof.
  const [top, ...siblings] = path.index === 0 ? [firstRoot, ...proof] : proof;
  if (top === undefined) return false;
  let [before, after] = [top, top];
  for (const sibling of siblings) {
    if (path.last === 0) return false;
    if (path.hasLeftSibling()) [before, after] = [nodeHash(sibling, before), nodeHash(sibling, after)];
    else after = nodeHash(after, sibling);
    path.up();
  }
  return path.last === 0 && isEqual(before, firstRoot) && isEqual(after, secondRoot);
}

/** The index of a node and of the last node of its level, on the path to the root. Shifts are divisions, because sizes
 * exceed 32 bits. */
class PathToRoot {
  constructor(public index: number, public last: number) {}

  /** Whether the sibling is on the left: the node is a right child, or the last node of a level and has no sibling there. */
  hasLeftSibling(): boolean {
    return this.index % 2 === 1 || this.index === this.last;
  }

  up(): void {
    if (this.hasLeftSibling()) while (this.index % 2 === 0 && this.index !== 0) this.shift();
    this.shift();
  }

  shift(): void {
    this.index = Math.floor(this.index / 2);
    this.last = Math.floor(this.last / 2);
  }
}

/** Build and parse the export line of a record that the page shows; null if it is not in canonical form, if its hash does
 * not match its bytes, or if a personal value does not match its commitment. */
export function lineOf(shown: {seq: number; hash: string; personal?: unknown; record: unknown}): Line | null {
  const personal = shown.personal === undefined || shown.personal === null ? ''
    : `"personal":${canonical(shown.personal)},`;
  const text = `{"seq":${shown.seq},"hash":${JSON.stringify(shown.hash)},${personal}"record":${canonical(shown.record)}}\n`;
  const line = readLine(new TextEncoder().encode(text));
  if (line === null || !line.isPersonalValid || line.seq !== line.record.seq) return null;
  return isEqual(line.digest, unhex(line.hash)) ? line : null;
}
