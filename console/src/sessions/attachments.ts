/** Files that go with a prompt, as its content parts. */
import {sha256} from '../digest';

/** One file, and all files of a prompt together: the gateway takes no more. */
export const MAX_FILE_BYTES = 512 * 1024;
export const MAX_BYTES = 4 * 1024 * 1024;

const CHUNK = 8_192;

export interface Attached {
  name: string;
  bytes: number;
  part: {contentType: 'image' | 'file'; value: Record<string, string>};
}

/** What a PNG, JPEG, GIF or WebP begins with. */
const IMAGES: readonly (readonly [RegExp, string])[] = [
  [/^\x89PNG\r\n\x1a\n/, 'image/png'], [/^\xff\xd8\xff/, 'image/jpeg'], [/^GIF8[79]a/, 'image/gif'], [/^RIFF[\s\S]{4}WEBP/, 'image/webp'],
];

function binary(bytes: Uint8Array): string {
  let out = '';
  for (let at = 0; at < bytes.length; at += CHUNK) out += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  return out;
}

/** Read a file: a picture by what it holds, not by its name, everything else as a file. */
export async function attached(file: File): Promise<Attached> {
  const content = await file.arrayBuffer();
  const text = binary(new Uint8Array(content));
  const image = IMAGES.find(([start]) => start.test(text))?.[1];
  return {name: file.name, bytes: content.byteLength, part: {contentType: image === undefined ? 'file' : 'image', value: {
    encoding: 'base64', data: btoa(text), sha256: await sha256(content),
    media_type: image ?? (file.type === '' ? 'application/octet-stream' : file.type), name: file.name}}};
}
