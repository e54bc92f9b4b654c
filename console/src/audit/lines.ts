/** Cut a stream of bytes into whole lines. */

const NEWLINE = 10;

/** The lines of each piece that arrives, with their newlines; a rest without one is the last line. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array[]> {
  const reader = stream.getReader();
  let rest = new Uint8Array();
  for (;;) {
    const {done, value} = await reader.read();
    if (done) break;
    let piece = value;
    if (rest.length > 0) {
      piece = new Uint8Array(rest.length + value.length);
      piece.set(rest);
      piece.set(value, rest.length);
    }
    const lines: Uint8Array[] = [];
    let from = 0;
    for (let end = piece.indexOf(NEWLINE); end >= 0; end = piece.indexOf(NEWLINE, from)) {
      lines.push(piece.subarray(from, end + 1));
      from = end + 1;
    }
    rest = piece.slice(from);
    if (lines.length > 0) yield lines;
  }
  if (rest.length > 0) yield [rest];
}
