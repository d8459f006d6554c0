import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { BytesInFlight } from '@nereid/caller';

/** What one connection's requests hold. */
interface ConnectionBytes {
  held: number;
  open: boolean;
}

/** The account of one HTTP request. It is *open* until its answer is written or its connection ends. */
export interface RequestBytes {
  readonly inFlight: BytesInFlight;
  readonly connection: ConnectionBytes;
  held: number;
  open: boolean;
}

/** Opens the account of a request; call once, before its body is read. */
export type OpenRequestBytes = (socket: Socket, response: ServerResponse) => RequestBytes;

/**
 * A request's account ends where Node says that its answer is written. An answer behind others of its
 * connection is never written, nor is that told, where the client leaves before: so the end of a
 * connection frees what is left of all its requests.
 */
export function createRequestBytes(inFlight: BytesInFlight): OpenRequestBytes {
  const connections = new WeakMap<Socket, ConnectionBytes>();
  const connectionOf = (socket: Socket): ConnectionBytes => {
    const known = connections.get(socket);
    if (known !== undefined) return known;
    const connection: ConnectionBytes = { held: 0, open: !socket.destroyed };
    socket.once('close', () => {
      inFlight.release(connection.held);
      connection.held = 0;
      connection.open = false;
    });
    connections.set(socket, connection);
    return connection;
  };
  return (socket, response) => {
    const request: RequestBytes = { inFlight, connection: connectionOf(socket), held: 0, open: true };
    // It comes once: there is nothing to take off again, which `once` would do at a cost.
    response.on('finish', () => {
      dropBytes(request);
      request.open = false;
    });
    return request;
  };
}

/** More of the request has come; false where the gateway holds too much, and nothing is taken. */
export function takeBytes(request: RequestBytes, bytes: number): boolean {
  // What comes behind its answer is read only to be thrown away.
  if (!isOpen(request)) return true;
  if (!request.inFlight.take(bytes)) return false;
  count(request, bytes);
  return true;
}

/** The answer, as it is handed to the connection. */
export function addBytes(request: RequestBytes, bytes: number): void {
  if (!isOpen(request)) return;
  request.inFlight.add(bytes);
  count(request, bytes);
}

/** All that it holds is let go; it may take again. */
export function dropBytes(request: RequestBytes): void {
  const { connection, inFlight, held } = request;
  request.held = 0;
  if (!connection.open) return;
  connection.held -= held;
  inFlight.release(held);
}

function isOpen({ open, connection }: RequestBytes): boolean {
  return open && connection.open;
}

function count(request: RequestBytes, bytes: number): void {
  request.held += bytes;
  request.connection.held += bytes;
}
