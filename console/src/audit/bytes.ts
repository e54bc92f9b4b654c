/** Bytes, hexadecimal digits, base64 and hashes. */
import {hmac as hmacOf} from '@noble/hashes/hmac.js';
import {sha256 as hashOf} from '@noble/hashes/sha2.js';

export type Bytes = Uint8Array<ArrayBuffer>;

const DIGITS = Array.from({length: 256}, (_, byte) => byte.toString(16).padStart(2, '0'));
const encoder = new TextEncoder();

export function utf8(text: string): Bytes {
  return encoder.encode(text);
}

export function hex(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += DIGITS[byte];
  return text;
}

export function unhex(text: string): Bytes {
  const bytes = new Uint8Array(text.length / 2);
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = parseInt(text.slice(2 * at, 2 * at + 2), 16);
  return bytes;
}

/** Read base64 in its one form; null if the text is in another. */
export function unbase64(text: string): Bytes | null {
  try {
    const binary = atob(text);
    return btoa(binary) === text ? Uint8Array.from(binary, (one) => one.charCodeAt(0)) : null;
  } catch {
    return null;
  }
}

export function joined(...parts: Uint8Array[]): Bytes {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

export function isEqual(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

// Not by WebCrypto: each of its digests crosses to another thread and back, which costs more than the hash of a record.
export function sha256(bytes: Uint8Array): Bytes {
  return hashOf(bytes) as Bytes;
}

const LEAF = new Uint8Array([0]);
const NODE = new Uint8Array([1]);

/** The hash of a leaf of a Merkle tree (RFC 6962). */
export function leafOf(bytes: Uint8Array): Bytes {
  return hashOf.create().update(LEAF).update(bytes).digest() as Bytes;
}

/** The hash of a node of a Merkle tree above two others. */
export function nodeOf(left: Uint8Array, right: Uint8Array): Bytes {
  return hashOf.create().update(NODE).update(left).update(right).digest() as Bytes;
}

export function hmac(key: Uint8Array, message: Uint8Array): Bytes {
  return hmacOf(hashOf, key, message) as Bytes;
}
