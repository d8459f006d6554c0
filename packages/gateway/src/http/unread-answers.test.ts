import type { Socket } from 'node:net';
import { createBytesInFlight } from '@nereid/caller';
import { createLog, virtualClock } from '@nereid/runtime';
import { describe, expect, it } from 'vitest';
import { identity, modelRecord } from '../gateway-fixture.ts';
import { httpFixture, openConnection, post } from './http-fixture.ts';
import { createUnreadAnswers } from './unread-answers.ts';

const TIMEOUT_MS = 20_000;

/** A connection as far as it is looked at. */
interface FakeSocket {
  writableLength: number;
  bytesWritten: number;
  destroyed: boolean;
}

function fake() {
  const clock = virtualClock();
  const socket: FakeSocket & { destroy(): void } = {
    writableLength: 0,
    bytesWritten: 0,
    destroyed: false,
    destroy() {
      this.destroyed = true;
    },
  };
  const open = new Set([socket as unknown as Socket]);
  const unread = createUnreadAnswers({
    clock,
    log: createLog({ level: 'silent' }),
    connections: () => open,
    timeoutMs: TIMEOUT_MS,
  });
  const seconds = (count: number) => clock.advanceUs(count * 1_000_000);
  return { clock, socket, open, unread, seconds };
}

describe('a connection', () => {
  it('whose client takes nothing for the time given is ended', () => {
    const { socket, unread, seconds } = fake();
    unread.watch();
    Object.assign(socket, { bytesWritten: 1_000, writableLength: 400 });
    seconds(24);
    expect(socket.destroyed).toBe(false);
    seconds(6);
    expect(socket.destroyed).toBe(true);
  });

  it('whose client takes a little again and again stays', () => {
    const { socket, unread, seconds } = fake();
    unread.watch();
    Object.assign(socket, { bytesWritten: 1_000, writableLength: 400 });
    for (let left = 399; left > 390; left--) {
      seconds(15);
      socket.writableLength = left;
    }
    expect(socket.destroyed).toBe(false);
  });

  it('with nothing unread stays, however long its answer takes', () => {
    const { socket, unread, seconds } = fake();
    unread.watch();
    seconds(1_000);
    expect(socket.destroyed).toBe(false);
  });

  it('that stood still before and had nothing unread in between has its time anew', () => {
    const { socket, unread, seconds } = fake();
    unread.watch();
    Object.assign(socket, { bytesWritten: 1_000, writableLength: 400 });
    seconds(15);
    socket.writableLength = 0;
    seconds(10);
    Object.assign(socket, { bytesWritten: 1_400, writableLength: 800 });
    seconds(15);
    expect(socket.destroyed).toBe(false);
  });
});

it('nobody is looked at where nobody is connected, or after the end', () => {
  const { clock, open, unread, seconds } = fake();
  unread.watch();
  unread.watch();
  expect(clock.liveTimers).toBe(1);
  open.clear();
  seconds(5);
  expect(clock.liveTimers).toBe(0);
  unread.watch();
  unread.close();
  unread.watch();
  expect(clock.liveTimers).toBe(0);
});

it('a client that does not read is cut, and its answer is let go', async () => {
  const clock = virtualClock();
  const bytesInFlight = createBytesInFlight(1_000_000_000);
  const data = new Uint8Array(64_000_000);
  const fixture = await httpFixture({
    models: [modelRecord(identity('bytes', 'UINT8'))],
    answer: () => {
      const outputs = [{ name: 'OUTPUT', datatype: 'UINT8', shape: [data.length], data } as const];
      return { ok: true, response: { modelName: 'bytes', modelVersion: '1', id: '', parameters: {}, outputs } };
    },
    http: { clock, bytesInFlight, answerUnreadTimeoutMs: TIMEOUT_MS },
  });
  const { url } = await fixture.http.listen();
  const client = await openConnection(url);
  client.socket.pause();
  client.socket.write(post('/v2/models/bytes/infer', 'x', ['Inference-Header-Content-Length: 0']));
  await expect.poll(() => bytesInFlight.held).toBeGreaterThan(data.length);
  const look = () => {
    clock.advanceUs(5_000_000);
    return bytesInFlight.held;
  };
  await expect.poll(look, { interval: 5 }).toBe(0);
  client.socket.resume();
  expect((await client.ended()).length).toBeLessThan(data.length);
  await fixture.http.close(0);
  await fixture.gateway.close();
});
