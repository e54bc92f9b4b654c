/** Server-sent events, cut out of bytes by the standard's rules. */

import {NotAGateway} from './errors.js';

export interface RawEvent {
  /** The cursor; null for what is not kept, such as a heartbeat. */
  id: string | null;
  event: string;
  data: string;
}

const EVENT_MOST_CHARS = 4 * 1024 * 1024;

/** Read the events of a stream to its end. Throws whatever the stream fails with. */
export async function* events(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<RawEvent> {
  const decoder = new TextDecoder();
  let rest = '';
  let size = 0;
  let found: {id: string | null; event: string; data: string[]} = {id: null, event: 'message', data: []};
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, {stream: true})).split('\n');
    rest = lines.pop() ?? '';
    for (const one of lines) {
      const line = one.endsWith('\r') ? one.slice(0, -1) : one;
      if (line === '') {
        if (found.data.length > 0) yield {id: found.id, event: found.event, data: found.data.join('\n')};
        [found, size] = [{id: null, event: 'message', data: []}, 0];
        continue;
      }
      const at = line.indexOf(':');
      const [name, after] = at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 1)];
      const value = after.startsWith(' ') ? after.slice(1) : after;
      if (name === 'data') {
        found.data.push(value);
        size += value.length;
      } else if (name === 'id') found.id = value;
      else if (name === 'event') found.event = value;
    }
    if (size + rest.length > EVENT_MOST_CHARS) throw new NotAGateway('An event of the stream has no end. Is the URL that of a gateway?');
  }
}
