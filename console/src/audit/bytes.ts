/** Conversions of bytes (hexadecimal, base64, UTF-8), and hashes. */
import {hmac as nobleHmac} from '@noble/hashes/hmac.js';
import {sha256 as nobleSha256} from '@noble/hashes/sha2.js';

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

/** Decode canonical base64; null for any other text. */
export function unbase64(text: string): Bytes | null {
  try {
    const binary = atob(text);
    return btoa(binary) === text ? Uint8Array.from(binary, (one) => one.charCodeAt(0)) : null;
  } catch {
    return null;
  }
}

export function concat(...parts: Uint8Array[]): Bytes {
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

// Not WebCrypto: each of its digests is computed on another thread, and the round trip costs more than hashing a record.
export function sha256(bytes: Uint8Array): Bytes {
  return nobleSha256(bytes) as Bytes;
}

const LEAF = new Uint8Array([0]);
const NODE = new Uint8Array([1]);

/** Return the hash of a leaf of a Merkle tree (RFC 6962). */
export function leafHash(bytes: Uint8Array): Bytes {
  return nobleSha256.create().update(LEAF).update(bytes).digest() as Bytes;
}

/** Return the hash of an inner node of a Merkle tree, from its two children. */
export function nodeHash(left: Uint8Array, right: Uint8Array): Bytes {
  return nobleSha256.create().update(NODE).update(left).update(right).digest() as Bytes;
}

export function hmac(key: Uint8Array, message: Uint8Array): Bytes {
  return nobleHmac(nobleSha256, key, message) as Bytes;
}
