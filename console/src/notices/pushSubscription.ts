/** Web push on this device: the browser's own subscription, and the gateway's record of it (J-18). */
import {change, HALF, read, remove, WHO, currentUser} from '../api';
import type {components} from '../api.generated';

type SubscriptionList = components['schemas']['PushSubscriptionList'];
type Subscription = components['schemas']['PushSubscription'];

/** The localStorage key of the principal whose notices are on in this browser: they stay on after its next login. */
const OWNER_STORAGE_KEY = 'interlock.notices';
const PATH = '/v1/push-subscriptions';

export type State =
  | {kind: 'unsupported'} | {kind: 'unconfigured'} | {kind: 'blocked'}
  | {kind: 'off'; key: string} | {kind: 'on'; key: string; id: string};

/** Keep the login in localStorage, so that it survives the closed page; with `keep` false, only in this tab. */
function persistLogin(keep = true): void {
  for (const name of [HALF, WHO]) {
    const value = sessionStorage.getItem(name) ?? localStorage.getItem(name);
    if (value === null) continue;
    sessionStorage.setItem(name, value);
    if (keep) localStorage.setItem(name, value);
    else localStorage.removeItem(name);
  }
}

function principalName(): string {
  const principal = currentUser()?.principal;
  return principal === undefined ? '' : `${principal.type}:${principal.id}`;
}

/** Read the state of notices on this device. Subscribes again if they were on and the login is a new one.
 *
 * Raises: Refused. */
export async function readState(): Promise<State> {
  const {key, items} = await read<SubscriptionList>(PATH);
  if (key === null) return {kind: 'unconfigured'};
  if (!('serviceWorker' in navigator) || !('PushManager' in window) || !('Notification' in window)) return {kind: 'unsupported'};
  if (Notification.permission === 'denied') return {kind: 'blocked'};
  const current = items.find((one) => one.current);
  if (current !== undefined) return {kind: 'on', key, id: current.id};
  const shouldSubscribe = localStorage.getItem(OWNER_STORAGE_KEY) === principalName() && Notification.permission === 'granted';
  return shouldSubscribe ? subscribe(key) : {kind: 'off', key};
}

/** Request the permission, which browsers allow only in response to a press, and subscribe.
 *
 * Raises: Refused; DOMException if the browser's push service fails. */
export async function turnOn(key: string): Promise<State> {
  return await Notification.requestPermission() === 'granted' ? subscribe(key) : readState();
}

async function subscribe(key: string): Promise<State> {
  const {pushManager} = await navigator.serviceWorker.ready;
  const applicationServerKey = bytes(key);
  const existing = await pushManager.getSubscription();
  // A subscription for another gateway's key is useless.
  if (existing !== null && !isEqual(existing.options.applicationServerKey, applicationServerKey)) await existing.unsubscribe();
  const created = await pushManager.subscribe({userVisibleOnly: true, applicationServerKey});
  const {endpoint, keys} = created.toJSON();
  const kept = await change<Subscription>(PATH, {endpoint, keys: {p256dh: keys?.['p256dh'], auth: keys?.['auth']}});
  localStorage.setItem(OWNER_STORAGE_KEY, principalName());
  persistLogin();
  return {kind: 'on', key, id: kept.id};
}

/** Turn off notices on this device.
 *
 * Raises: Refused. */
export async function turnOff(id: string): Promise<State> {
  localStorage.removeItem(OWNER_STORAGE_KEY);
  persistLogin(false);
  await remove(`${PATH}/${encodeURIComponent(id)}`);
  await (await (await navigator.serviceWorker.ready).pushManager.getSubscription())?.unsubscribe();
  return readState();
}

/** Have the gateway send a notice that names no approval.
 *
 * Raises: Refused. */
export async function sendTest(id: string): Promise<void> {
  await change(`${PATH}/${encodeURIComponent(id)}/test`, {});
}

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (char) => char.charCodeAt(0));
}

function isEqual(one: ArrayBuffer | null, other: Uint8Array): boolean {
  const array = new Uint8Array(one ?? new ArrayBuffer(0));
  return array.length === other.length && array.every((byte, index) => byte === other[index]);
}
