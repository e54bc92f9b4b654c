/** Pictures that an agent or a prompt brought: shown by what their bytes are, never by what is said of them. */

/** Larger ones are saved, not shown: in bytes, and in pixels, which a small file can have many of. */
export const MAX_PICTURE_BYTES = 8 * 1024 * 1024;
const MAX_PIXELS = 50_000_000;

/** Frame headers of a JPEG that carry its size: SOF0 to SOF15, but for those that are tables. */
const NOT_SIZES: ReadonlySet<number> = new Set([0xc4, 0xc8, 0xcc]);

export interface Picture {
  type: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp';
  width: number;
  height: number;
}

/** Read what a picture is from its first bytes; null for everything else, vector graphics too, and for one too large to show. */
export function pictureOf(bytes: Uint8Array<ArrayBuffer>): Picture | null {
  if (bytes.length > MAX_PICTURE_BYTES) return null;
  const found = sized(bytes);
  return found !== null && found.width > 0 && found.height > 0 && found.width * found.height <= MAX_PIXELS ? found : null;
}

function sized(bytes: Uint8Array<ArrayBuffer>): Picture | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const starts = (text: string, at = 0): boolean => Array.from(text).every((one, index) => bytes[at + index] === one.charCodeAt(0));
  try {
    if (starts('\x89PNG\r\n\x1a\n')) return {type: 'image/png', width: view.getUint32(16), height: view.getUint32(20)};
    if (starts('GIF8')) return {type: 'image/gif', width: view.getUint16(6, true), height: view.getUint16(8, true)};
    if (starts('RIFF') && starts('WEBP', 8)) return webp(view, starts);
    return starts('\xff\xd8\xff') ? jpeg(view) : null;
  } catch {
    return null;  // It ends before its size.
  }
}

function webp(view: DataView, starts: (text: string, at: number) => boolean): Picture | null {
  if (starts('VP8 ', 12)) return {type: 'image/webp', width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff};
  if (starts('VP8L', 12)) {
    const bits = view.getUint32(21, true);
    return {type: 'image/webp', width: (bits & 0x3fff) + 1, height: (bits >>> 14 & 0x3fff) + 1};
  }
  const long = (at: number): number => view.getUint16(at, true) + (view.getUint8(at + 2) << 16) + 1;
  return starts('VP8X', 12) ? {type: 'image/webp', width: long(24), height: long(27)} : null;
}

function jpeg(view: DataView): Picture | null {
  for (let at = 2; view.getUint8(at) === 0xff;) {
    const marker = view.getUint8(at + 1);
    if (marker >= 0xc0 && marker <= 0xcf && !NOT_SIZES.has(marker)) {
      return {type: 'image/jpeg', width: view.getUint16(at + 7), height: view.getUint16(at + 5)};
    }
    at += marker === 0xff ? 1 : 2 + view.getUint16(at + 2);
  }
  return null;
}

/** The bytes of base64; none of what is not base64. */
export function decoded(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
