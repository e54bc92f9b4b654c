/** The checkpoint that this browser stores between visits, and the proof that the log continues from it. */
import {read} from '../api';
import type {components} from '../api.generated';
import type {Bytes} from './bytes';
import {verifiedNote, type Checkpoint} from './checkpoint';
import {TamperedLog} from './logVerifier';
import {parseHashes, verifyConsistency} from './proof';

const STORAGE_KEY = 'interlock.audit.witness';

/** A verified checkpoint, and up to which record and when each record was checked individually. An entry of an earlier
 * console has no `whole`: all of its records were. */
export interface StoredCheckpoint { note: string; at: string; whole?: {size: number; at: string} }

export function load(): StoredCheckpoint | null {
  const text = localStorage.getItem(STORAGE_KEY);
  return text === null ? null : JSON.parse(text) as StoredCheckpoint;
}

export function store(stored: StoredCheckpoint): void {
  localStorage.setItem(STORAGE_KEY, JSON.stringify(stored));
}

export function forget(): void {
  localStorage.removeItem(STORAGE_KEY);
}

/** Return the size of the log that a note states, without verifying the note. */
export function sizeOf(note: string): number {
  return Number(note.split('\n')[1]);
}

/** Verify a stored note.
 *
 * Raises: TamperedLog if this key did not sign it. */
export async function verifyStored(stored: StoredCheckpoint, key: Bytes): Promise<Checkpoint> {
  const known = await verifiedNote(stored.note, key);
  if (known === null) throw new TamperedLog('bad signature', null);
  return known;
}

/** Request a new signed checkpoint, and verify that the log continues from `known`. Returns it with the number of hashes
 * of the proof.
 *
 * Raises: TamperedLog; Refused if the gateway refuses. */
export async function verifyNewest(known: Checkpoint, key: Bytes): Promise<{checkpoint: Checkpoint; hashes: number}> {
  const checkpoint = await verifiedNote(await (await read.raw('/v1/audit/checkpoint')).text(), key);
  if (checkpoint?.origin !== known.origin) throw new TamperedLog('bad signature', null);
  if (checkpoint.size < known.size) throw new TamperedLog('rolled back', checkpoint.size + 1);
  const proof = checkpoint.size === known.size ? [] : parseHashes((await read<components['schemas']['ConsistencyProof']>(
    `/v1/audit/proof/consistency?first=${known.size}&second=${checkpoint.size}`)).proof);
  if (proof === null || !verifyConsistency(known.size, known.root, checkpoint.size, checkpoint.root, proof)) {
    throw new TamperedLog('forked', null);
  }
  return {checkpoint, hashes: proof.length};
}
