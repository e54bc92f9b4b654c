/** Tests the client against a server on loopback whose responses are scripted, one for each request. */
import assert from 'node:assert/strict';
import {createServer, type IncomingMessage, type Server, type ServerResponse} from 'node:http';
import type {AddressInfo} from 'node:net';
import {afterEach, test} from 'node:test';
import {connect, NotAGateway, Refused, Unreachable, type Gateway} from '../src/index.js';

type Responder = (request: IncomingMessage, response: ServerResponse) => void;

let server: Server | undefined;
const retries = {attempts: 3, draw: () => 0};

/** Start a gateway whose n-th request is handled by the n-th function. */
async function scripted(...responders: Responder[]): Promise<{gateway: Gateway; seen: IncomingMessage[]}> {
  const seen: IncomingMessage[] = [];
  server = createServer((request, response) => {
    seen.push(request);
    request.resume().on('end', () => {
      const respond = responders[seen.length - 1];
      if (respond === undefined) response.writeHead(500).end();
      else respond(request, response);
    });
  });
  await new Promise<void>((done) => server!.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {gateway: connect({url, key: 'ilk_key', retries}), seen};
}

afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

const cut: Responder = (request) => { request.socket.destroy(); };

function json(status: number, body: unknown, headers: Record<string, string> = {}): Responder {
  return (_, response) => {
    response.writeHead(status, {'Content-Type': 'application/json', ...headers}).end(JSON.stringify(body));
  };
}

function stream(text: string, end: (response: ServerResponse) => void): Responder {
  return (_, response) => {
    response.writeHead(200, {'Content-Type': 'text/event-stream'});
    response.write(text, () => { end(response); });
  };
}

const over: Responder = (_, response) => { response.writeHead(204).end(); };

test('a lost change is sent again under the same key', async () => {
  const {gateway, seen} = await scripted(cut, json(200, {pruned: []}));
  await gateway.api.POST('/v1/prune', {body: {} as never});
  const keys = seen.map((one) => one.headers['idempotency-key']);
  assert.match(String(keys[0]), /^ts-[0-9a-f-]{36}$/);
  assert.deepEqual(keys, [keys[0], keys[0]]);
  assert.equal(seen[0]?.headers.authorization, 'Bearer ilk_key');
});

test('an idempotency key of the caller is kept', async () => {
  const {gateway, seen} = await scripted(json(200, {}));
  await gateway.api.POST('/v1/prune', {body: {} as never, params: {header: {'Idempotency-Key': 'nightly-1'}}});
  assert.equal(seen[0]?.headers['idempotency-key'], 'nightly-1');
});

test('a change that accepts no idempotency key is never sent twice', async () => {
  const {gateway, seen} = await scripted(cut, json(200, {}));
  await assert.rejects(gateway.api.POST('/v1/runners/pair', {body: {} as never}), Unreachable);
  assert.equal(seen.length, 1);
  assert.equal(seen[0]?.headers['idempotency-key'], undefined);
});

test('a request is repeated after the delay that the gateway requests', async () => {
  const busy = json(503, {code: 'Unavailable', detail: 'It drains.'}, {'Retry-After': '0'});
  const {gateway, seen} = await scripted(busy, json(200, {items: []}));
  assert.deepEqual((await gateway.api.GET('/v1/approvals')).data, {items: []});
  assert.equal(seen.length, 2);
});

test('a refusal is thrown with its code, and not repeated', async () => {
  const {gateway, seen} = await scripted(json(409, {code: 'Conflict', detail: 'It was decided.'}));
  await assert.rejects(gateway.api.GET('/v1/status'), (error: unknown) =>
    error instanceof Refused && error.status === 409 && error.code === 'Conflict'
    && error.message === 'Conflict: It was decided.');
  assert.equal(seen.length, 1);
});

test('the refusal of the last attempt is thrown', async () => {
  const busy = json(503, {code: 'Unavailable', detail: 'It drains.'}, {'Retry-After': '0'});
  const {gateway, seen} = await scripted(busy, busy, busy);
  await assert.rejects(gateway.api.GET('/v1/status'), Refused);
  assert.equal(seen.length, 3);
});

test('a stream that is cut resumes after its last event', async () => {
  const first = 'id: c1\nevent: state\ndata: {"state":"queued"}\n\nevent: heartbeat\ndata: {}\n\nid: c2\nevent: state\ndata: {"st';
  const second = 'id: c2\r\nevent: state\r\ndata: {"state":\r\ndata: "running"}\r\n\r\n';
  const {gateway, seen} = await scripted(
    stream(first, (response) => { response.socket?.destroy(); }), cut, stream(second, (response) => response.end()), over);
  const notes: string[] = [];
  const received: unknown[] = [];
  const options = {onLost: () => notes.push('lost'), onReattached: () => notes.push('reattached')};
  for await (const {cursor, data} of gateway.followCommand('cmd_1', options)) received.push([cursor, data.state]);
  assert.deepEqual(received, [['c1', 'queued'], ['c2', 'running']]);
  assert.deepEqual(notes, ['lost', 'reattached']);
  assert.deepEqual(seen.map((one) => one.headers['last-event-id']), [undefined, 'c1', 'c1', 'c2']);
  assert.deepEqual(new Set(seen.map((one) => one.url)), new Set(['/v1/commands/cmd_1/status']));
});

test('a stream is closed when its reader stops', async () => {
  let closed: () => void;
  const isClosed = new Promise<void>((done) => { closed = done; });
  const {gateway} = await scripted((_, response) => {
    response.on('close', () => { closed(); });
    response.writeHead(200, {'Content-Type': 'text/event-stream'}).write('id: c1\ndata: {}\n\n');
  });
  for await (const one of gateway.followEvents({since: 'c0'})) {
    assert.equal(one.cursor, 'c1');
    break;
  }
  await isClosed;
});

test('a refused stream and an event that is not JSON throw', async () => {
  const {gateway} = await scripted(
    json(404, {code: 'NotFound', detail: 'No such session.'}), stream('data: <html>\n\n', (response) => response.end()));
  await assert.rejects(gateway.followSession('s').next(), Refused);
  await assert.rejects(gateway.followSession('s').next(), NotAGateway);
});

test('an aborted stream throws the reason', async () => {
  const {gateway} = await scripted(stream('id: c1\ndata: {}\n\n', () => undefined));
  const stop = new AbortController();
  const reading = gateway.followEvents({signal: stop.signal});
  assert.equal((await reading.next()).value?.cursor, 'c1');
  stop.abort(new Error('enough'));
  await assert.rejects(reading.next(), /enough/);
});

test('a key is not sent unencrypted to another host', () => {
  assert.throws(() => connect({url: 'http://gateway.example', key: 'k'}), /unencrypted/);
  assert.throws(() => connect({url: 'gateway', key: 'k'}), /http:\/\/127\.0\.0\.1:7420/);
  assert.throws(() => connect({url: 'https://gateway.example', key: ''}), /INTERLOCK_KEY/);
  connect({url: 'http://gateway.example', key: 'k', inClear: true});
});
