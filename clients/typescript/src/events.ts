/** Parses server-sent events from chunks of bytes, by the rules of the HTML standard. */

import {NotAGateway} from './errors.js';

export interface RawEvent {
  /** The cursor; null for an event that is not stored, such as a heartbeat. */
  id: string | null;
  event: string;
  data: string;
}

const EVENT_MAX_CHARS = 4 * 1024 * 1024;

/** Yield the events of a stream until it ends. Throws what the stream throws, and NotAGateway for an event that is longer
 * than EVENT_MAX_CHARS. */
export async function* events(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<RawEvent> {
  const decoder = new TextDecoder();
  let rest = '';
  let size = 0;
  let current: {id: string | null; event: string; data: string[]} = {id: null, event: 'message', data: []};
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, {stream: true})).split('\n');
    rest = lines.pop() ?? '';
    for (const raw of lines) {
      const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
      if (line === '') {
        if (current.data.length > 0) yield {id: current.id, event: current.event, data: current.data.join('\n')};
        [current, size] = [{id: null, event: 'message', data: []}, 0];
        continue;
      }
      const colon = line.indexOf(':');
      const [field, after] = colon < 0 ? [line, ''] : [line.slice(0, colon), line.slice(colon + 1)];
      const value = after.startsWith(' ') ? after.slice(1) : after;
      if (field === 'data') {
        current.data.push(value);
        size += value.length;
      } else if (field === 'id') current.id = value;
      else if (field === 'event') current.event = value;
    }
    if (size + rest.length > EVENT_MAX_CHARS) throw new NotAGateway('An event of the stream is too long. Is the URL a gateway\'s?');
  }
}
