/** Passkeys of the person who is logged in (J-17): the browser makes one for the origin of this page, and confirms
 * statements with it. The challenge is the SHA-256 of the statement, so that a tap is good for that statement alone. */
import {change, read, who, type Answer, type Approval} from '../api';
import type {components} from '../api.generated';
import {canonical} from '../audit/canonical';
import {t} from './messages';

export type SigningKey = components['schemas']['SigningKey'];

const MADE = 'racp-passkey-v1\n';
const VOTED = 'racp-approval-v1\n';
/** ES256, EdDSA and RS256, as COSE numbers them: what the gateway checks. */
const ALGORITHMS = [-7, -8, -257];
const TIMEOUT_MS = 120_000;

type Buffered = Uint8Array<ArrayBuffer>;

function base64(bytes: ArrayBuffer): string {
  return btoa(String.fromCharCode(...new Uint8Array(bytes)));
}

function base64url(bytes: ArrayBuffer): string {
  return base64(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

function unbase64url(text: string): Buffered {
  return Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (one) => one.charCodeAt(0));
}

function hashed(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
}

function me(): string {
  const {type, id} = who()?.principal ?? {type: 'user', id: ''};
  return `${type}:${id}`;
}

/** Why this page cannot have passkeys, in one sentence; "" if it can. */
export function obstacle(): string {
  if (!('credentials' in navigator) || !('PublicKeyCredential' in window)) return t('unknown');
  return /^[\d.]+$|^\[/.test(location.hostname) ? t('address') : '';
}

/** Whether a key is a passkey of this person that this page may ask, and is good. */
export function isMine(key: SigningKey): boolean {
  return key.passkey?.origin === location.origin && !key.revoked_at && `${key.owner.type}:${key.owner.id}` === me();
}

export async function signingKeys(): Promise<SigningKey[]> {
  return (await read<components['schemas']['SigningKeyList']>('/v1/signing-keys')).signing_keys;
}

/** Run a request to the browser. What it says of a failure is meant for programmers.
 *
 * Raises: Error with one sentence. */
async function asked(work: () => Promise<Credential | null>): Promise<PublicKeyCredential> {
  try {
    const found = await work();
    if (found !== null) return found as PublicKeyCredential;
  } catch (error) {
    const name = error instanceof DOMException ? error.name : '';
    if (name === 'InvalidStateError') throw new Error(t('again'));
    if (name !== 'NotAllowedError' && name !== 'AbortError') throw new Error(t('failed', error instanceof Error ? error.message : String(error)));
  }
  throw new Error(t('refused'));
}

/** Have a statement confirmed with this passkey. */
async function confirmed(statement: string, credential_id: string): Promise<components['schemas']['PasskeyAssertion']> {
  const challenge = await hashed(statement);
  const found = await asked(() => navigator.credentials.get({publicKey: {
    challenge, rpId: location.hostname, userVerification: 'required', timeout: TIMEOUT_MS,
    allowCredentials: [{type: 'public-key', id: unbase64url(credential_id)}]}}));
  const response = found.response as AuthenticatorAssertionResponse;
  return {authenticator_data: base64url(response.authenticatorData), client_data_json: base64url(response.clientDataJSON),
    signature: base64url(response.signature)};
}

/** Have a passkey made, confirm whose it is, and register it. The browser asks twice.
 *
 * Raises: Error with one sentence. */
export async function register(label: string, known: SigningKey[]): Promise<SigningKey> {
  const {principal, tenant_id} = who() ?? {principal: {id: ''}, tenant_id: ''};
  // A person has one name for each tenant; what the authenticator keeps of it is its hash.
  const user = await hashed(canonical({tenant_id, owner: me()}));
  const made = await asked(() => navigator.credentials.create({publicKey: {
    rp: {id: location.hostname, name: 'Interlock'}, user: {id: user, name: principal.id, displayName: principal.id},
    challenge: crypto.getRandomValues(new Uint8Array(32)), timeout: TIMEOUT_MS, attestation: 'none',
    pubKeyCredParams: ALGORITHMS.map((alg) => ({type: 'public-key', alg})),
    authenticatorSelection: {userVerification: 'required'},
    excludeCredentials: known.filter(isMine).map((one) => ({type: 'public-key', id: unbase64url(one.passkey?.credential_id ?? '')}))}}));
  const key = (made.response as AuthenticatorAttestationResponse).getPublicKey();
  if (key === null) throw new Error(t('kind'));
  const body = {public_key: base64(key), credential_id: base64url(made.rawId), at: new Date().toISOString()};
  const assertion = await confirmed(MADE + canonical({...body, tenant_id, owner: me()}), body.credential_id);
  return await change<SigningKey>('/v1/passkeys', {...body, label, assertion});
}

/** Sign a vote with this passkey: what is voted on is named by its digest (P-4).
 *
 * Raises: Error with one sentence. */
export async function signed(approval: Approval, decision: 'grant' | 'deny', key: SigningKey): Promise<Answer> {
  const at = new Date().toISOString();
  const statement = {tenant_id: approval.tenant_id, subject_id: approval.id, digest: approval.digest, decision, approver: me(), key_id: key.key_id, at};
  return {method: 'passkey', key_id: key.key_id, at,
    assertion: await confirmed(VOTED + canonical(statement), key.passkey?.credential_id ?? '')};
}
