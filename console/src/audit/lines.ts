/** Splits a stream of bytes into lines. */

const NEWLINE = 10;

/** Yield the complete lines of each chunk, with their newlines; a rest without a newline is the last line. */
export async function* splitLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array[]> {
  const reader = stream.getReader();
  let rest = new Uint8Array();
  for (;;) {
    const {done, value} = await reader.read();
    if (done) break;
    let chunk = value;
    if (rest.length > 0) {
      chunk = new Uint8Array(rest.length + value.length);
      chunk.set(rest);
      chunk.set(value, rest.length);
    }
    const lines: Uint8Array[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      lines.push(chunk.subarray(start, end + 1));
      start = end + 1;
    }
    rest = chunk.slice(start);
    if (lines.length > 0) yield lines;
  }
  if (rest.length > 0) yield [rest];
}
