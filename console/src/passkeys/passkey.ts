/** Passkeys of the user who is logged in (J-17): the browser creates one for the origin of this page, and signs
 * statements with it. The challenge is the SHA-256 of the statement, so a signature is valid for that statement only. */
import {change, read, currentUser, type Answer, type Approval} from '../api';
import type {components} from '../api.generated';
import {canonical} from '../audit/canonical';
import {t} from './messages';

export type SigningKey = components['schemas']['SigningKey'];

const REGISTRATION_PREFIX = 'racp-passkey-v1\n';
const VOTE_PREFIX = 'racp-approval-v1\n';
/** The algorithms that the gateway verifies, as COSE numbers: ES256, EdDSA and RS256. */
const ALGORITHMS = [-7, -8, -257];
const TIMEOUT_MS = 120_000;

type Bytes = Uint8Array<ArrayBuffer>;

function base64(bytes: ArrayBuffer): string {
  return btoa(String.fromCharCode(...new Uint8Array(bytes)));
}

function base64url(bytes: ArrayBuffer): string {
  return base64(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

function unbase64url(text: string): Bytes {
  return Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (one) => one.charCodeAt(0));
}

function sha256(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
}

function currentPrincipal(): string {
  const {type, id} = currentUser()?.principal ?? {type: 'user', id: ''};
  return `${type}:${id}`;
}

/** Return why this page cannot use passkeys, as one sentence; "" if it can. */
export function unsupportedReason(): string {
  if (!('credentials' in navigator) || !('PublicKeyCredential' in window)) return t('unknown');
  return /^[\d.]+$|^\[/.test(location.hostname) ? t('address') : '';
}

/** Whether a key is a passkey of this user for this origin, and not revoked. */
export function isUsableHere(key: SigningKey): boolean {
  return key.passkey?.origin === location.origin && !key.revoked_at && `${key.owner.type}:${key.owner.id}` === currentPrincipal();
}

export async function signingKeys(): Promise<SigningKey[]> {
  return (await read<components['schemas']['SigningKeyList']>('/v1/signing-keys')).signing_keys;
}

/** Call the browser's credentials API, and replace its error messages, which are meant for programmers.
 *
 * Raises: Error with one sentence. */
async function callAuthenticator(work: () => Promise<Credential | null>): Promise<PublicKeyCredential> {
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

/** Sign a statement with this passkey. */
async function signStatement(statement: string, credential_id: string): Promise<components['schemas']['PasskeyAssertion']> {
  const challenge = await sha256(statement);
  const found = await callAuthenticator(() => navigator.credentials.get({publicKey: {
    challenge, rpId: location.hostname, userVerification: 'required', timeout: TIMEOUT_MS,
    allowCredentials: [{type: 'public-key', id: unbase64url(credential_id)}]}}));
  const response = found.response as AuthenticatorAssertionResponse;
  return {authenticator_data: base64url(response.authenticatorData), client_data_json: base64url(response.clientDataJSON),
    signature: base64url(response.signature)};
}

/** Create a passkey, sign its owner's name with it, and register it. The browser asks twice.
 *
 * Raises: Error with one sentence. */
export async function register(label: string, known: SigningKey[]): Promise<SigningKey> {
  const {principal, tenant_id} = currentUser() ?? {principal: {id: ''}, tenant_id: ''};
  // One user handle for each principal and tenant; the authenticator stores only its hash.
  const user = await sha256(canonical({tenant_id, owner: currentPrincipal()}));
  const created = await callAuthenticator(() => navigator.credentials.create({publicKey: {
    rp: {id: location.hostname, name: 'Interlock'}, user: {id: user, name: principal.id, displayName: principal.id},
    challenge: crypto.getRandomValues(new Uint8Array(32)), timeout: TIMEOUT_MS, attestation: 'none',
    pubKeyCredParams: ALGORITHMS.map((alg) => ({type: 'public-key', alg})),
    authenticatorSelection: {userVerification: 'required'},
    excludeCredentials: known.filter(isUsableHere).map((one) => ({type: 'public-key', id: unbase64url(one.passkey?.credential_id ?? '')}))}}));
  const key = (created.response as AuthenticatorAttestationResponse).getPublicKey();
  if (key === null) throw new Error(t('kind'));
  const body = {public_key: base64(key), credential_id: base64url(created.rawId), at: new Date().toISOString()};
  const assertion = await signStatement(REGISTRATION_PREFIX + canonical({...body, tenant_id, owner: currentPrincipal()}), body.credential_id);
  return await change<SigningKey>('/v1/passkeys', {...body, label, assertion});
}

/** Sign a vote with this passkey; the digest names the request (P-4).
 *
 * Raises: Error with one sentence. */
export async function signVote(approval: Approval, decision: 'grant' | 'deny', key: SigningKey): Promise<Answer> {
  const at = new Date().toISOString();
  const statement = {tenant_id: approval.tenant_id, subject_id: approval.id, digest: approval.digest, decision, approver: currentPrincipal(), key_id: key.key_id, at};
  return {method: 'passkey', key_id: key.key_id, at,
    assertion: await signStatement(VOTE_PREFIX + canonical(statement), key.passkey?.credential_id ?? '')};
}
