import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { expect, it } from 'vitest';
import { createClientSignals } from './client-signal.ts';

function fakeSocket(destroyed = false): Socket {
  return Object.assign(new EventEmitter(), { destroyed }) as unknown as Socket;
}

it('is one per connection, with one listener on it however often it is asked for', () => {
  const clientSignal = createClientSignals();
  const [socket, other] = [fakeSocket(), fakeSocket()];
  const signal = clientSignal(socket);
  for (let index = 0; index < 20; index++) expect(clientSignal(socket)).toBe(signal);
  expect(clientSignal(other)).not.toBe(signal);
  expect(socket.listenerCount('close')).toBe(1);
});

it('is aborted once its own connection closes', () => {
  const clientSignal = createClientSignals();
  const [socket, other] = [fakeSocket(), fakeSocket()];
  const signals = [clientSignal(socket), clientSignal(other)];
  socket.emit('close');
  expect(signals.map((signal) => signal.aborted)).toEqual([true, false]);
});

it('is aborted already where the connection has closed', () => {
  expect(createClientSignals()(fakeSocket(true)).aborted).toBe(true);
});
