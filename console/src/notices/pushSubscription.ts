/** Web push on this device: the browser's own subscription, and the gateway's record of it (J-18). */
import {change, HALF, read, remove, WHO, who} from '../api';
import type {components} from '../api.generated';

type Listed = components['schemas']['PushSubscriptionList'];
type Kept = components['schemas']['PushSubscription'];

/** Whose notices were turned on in this browser: after another login of the same person they stay on. */
const WANTED = 'interlock.notices';
const PATH = '/v1/push-subscriptions';

export type State =
  | {is: 'unsupported'} | {is: 'unconfigured'} | {is: 'blocked'}
  | {is: 'off'; key: string} | {is: 'on'; key: string; id: string};

/** Keep this login when the page is closed, or no longer. */
function keepLogin(keep = true): void {
  for (const name of [HALF, WHO]) {
    const value = sessionStorage.getItem(name) ?? localStorage.getItem(name);
    if (value === null) continue;
    sessionStorage.setItem(name, value);
    if (keep) localStorage.setItem(name, value);
    else localStorage.removeItem(name);
  }
}

function person(): string {
  const principal = who()?.principal;
  return principal === undefined ? '' : `${principal.type}:${principal.id}`;
}

/** How things are with notices on this device; subscribes again if they are on and the login is a new one.
 *
 * Raises: Refused. */
export async function state(): Promise<State> {
  const {key, items} = await read<Listed>(PATH);
  if (key === null) return {is: 'unconfigured'};
  if (!('serviceWorker' in navigator) || !('PushManager' in window) || !('Notification' in window)) return {is: 'unsupported'};
  if (Notification.permission === 'denied') return {is: 'blocked'};
  const current = items.find((one) => one.current);
  if (current !== undefined) return {is: 'on', key, id: current.id};
  const wanted = localStorage.getItem(WANTED) === person() && Notification.permission === 'granted';
  return wanted ? subscribe(key) : {is: 'off', key};
}

/** Ask for the permission, which only a press may do, and subscribe.
 *
 * Raises: Refused; DOMException if the browser's push service does. */
export async function turnOn(key: string): Promise<State> {
  return await Notification.requestPermission() === 'granted' ? subscribe(key) : state();
}

async function subscribe(key: string): Promise<State> {
  const {pushManager} = await navigator.serviceWorker.ready;
  const wanted = bytes(key);
  const there = await pushManager.getSubscription();
  // A subscription for another gateway key is of no use to this one.
  if (there !== null && !same(there.options.applicationServerKey, wanted)) await there.unsubscribe();
  const made = await pushManager.subscribe({userVisibleOnly: true, applicationServerKey: wanted});
  const {endpoint, keys} = made.toJSON();
  const kept = await change<Kept>(PATH, {endpoint, keys: {p256dh: keys?.['p256dh'], auth: keys?.['auth']}});
  localStorage.setItem(WANTED, person());
  keepLogin();
  return {is: 'on', key, id: kept.id};
}

/** End the notices on this device.
 *
 * Raises: Refused. */
export async function turnOff(id: string): Promise<State> {
  localStorage.removeItem(WANTED);
  keepLogin(false);
  await remove(`${PATH}/${encodeURIComponent(id)}`);
  await (await (await navigator.serviceWorker.ready).pushManager.getSubscription())?.unsubscribe();
  return state();
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

function same(one: ArrayBuffer | null, other: Uint8Array): boolean {
  const given = new Uint8Array(one ?? new ArrayBuffer(0));
  return given.length === other.length && given.every((byte, index) => byte === other[index]);
}
