import { setMaxListeners } from 'node:events';
import type { Socket } from 'node:net';

/**
 * The signal that a connection's client has left. One per connection and made at its first use:
 * requests add and take off their own listeners, which costs a tenth of a signal per request.
 */
export function createClientSignals(): (socket: Socket) => AbortSignal {
  const signals = new WeakMap<Socket, AbortSignal>();
  return (socket) => {
    const known = signals.get(socket);
    if (known !== undefined) return known;
    const controller = new AbortController();
    const leave = () => controller.abort('the client closed its connection');
    // Pipelined requests may each have a listener.
    setMaxListeners(0, controller.signal);
    if (socket.destroyed) leave();
    else socket.once('close', leave);
    signals.set(socket, controller.signal);
    return controller.signal;
  };
}
