/** What this browser keeps of a log between visits, and the proof that the log continues from there. */
import {read} from '../api';
import type {components} from '../api.generated';
import type {Bytes} from './bytes';
import {genuine, type Checkpoint} from './checkpoint';
import {Bad} from './logVerifier';
import {continues, hashesOf} from './proof';

const WITNESS = 'interlock.audit.witness';

/** A checkpoint that was checked, and up to where and when every record was; one that an earlier console kept was
 * checked record by record. */
export interface Witness { note: string; at: string; whole?: {size: number; at: string} }

export function stored(): Witness | null {
  const text = localStorage.getItem(WITNESS);
  return text === null ? null : JSON.parse(text) as Witness;
}

export function store(witness: Witness): void {
  localStorage.setItem(WITNESS, JSON.stringify(witness));
}

export function forget(): void {
  localStorage.removeItem(WITNESS);
}

/** How many records a note says that the log has; nothing of it is checked. */
export function sizeOf(note: string): number {
  return Number(note.split('\n')[1]);
}

/** Read a note that was kept.
 *
 * Raises: Bad if this key did not sign it. */
export async function knownOf(witness: Witness, key: Bytes): Promise<Checkpoint> {
  const known = await genuine(witness.note, key);
  if (known === null) throw new Bad('bad signature', null);
  return known;
}

/** Have the newest checkpoint signed, and check that the log continues from `known`; with the number of hashes that prove it.
 *
 * Raises: Bad, and Refused if the gateway does not answer. */
export async function follow(known: Checkpoint, key: Bytes): Promise<{checkpoint: Checkpoint; hashes: number}> {
  const checkpoint = await genuine(await (await read.raw('/v1/audit/checkpoint')).text(), key);
  if (checkpoint?.origin !== known.origin) throw new Bad('bad signature', null);
  if (checkpoint.size < known.size) throw new Bad('rolled back', checkpoint.size + 1);
  const proof = checkpoint.size === known.size ? [] : hashesOf((await read<components['schemas']['ConsistencyProof']>(
    `/v1/audit/proof/consistency?first=${known.size}&second=${checkpoint.size}`)).proof);
  if (proof === null || !continues(known.size, known.root, checkpoint.size, checkpoint.root, proof)) {
    throw new Bad('forked', null);
  }
  return {checkpoint, hashes: proof.length};
}
