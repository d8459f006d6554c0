/** An HTTP server over a gateway fixture, and plain sockets to talk to it; only tests import this. */
import { connect, type Socket } from 'node:net';
import { doorFixture } from '../door-fixture.ts';
import { type FixtureOptions, type GatewayFixture, gatewayFixture } from '../gateway-fixture.ts';
import { createHttpServer, type HttpServer, type HttpServerOptions } from './server.ts';

export interface HttpFixture extends GatewayFixture {
  readonly http: HttpServer;
}

export async function httpFixture(
  options: FixtureOptions & { readonly http?: Partial<HttpServerOptions> } = {},
): Promise<HttpFixture> {
  const fixture = await gatewayFixture(options);
  const http = createHttpServer({
    ...doorFixture(fixture),
    maxInputBytes: 1_000_000,
    ...options.http,
  });
  return { ...fixture, http };
}

export interface Connection {
  readonly socket: Socket;
  /** All that has come so far. */
  text(): string;
  /** Waits until what has come matches, or the connection ends; gives what has come. */
  until(pattern: RegExp): Promise<string>;
  /** Waits for the server to end the connection; gives what has come. */
  ended(): Promise<string>;
}

/** Opens a connection to `http://host:port`. */
export async function openConnection(url: string): Promise<Connection> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  let received = '';
  let over = false;
  let changed: (() => void) | undefined;
  socket.setNoDelay(true);
  socket.on('data', (chunk) => {
    received += chunk.toString('latin1');
    changed?.();
  });
  // A reset is an end like any other here: the tests look at what had come by then.
  socket.on('error', () => {});
  socket.on('close', () => {
    over = true;
    changed?.();
  });
  await new Promise<void>((resolve) => socket.once('connect', () => resolve()));
  const when = (condition: () => boolean) =>
    new Promise<string>((resolve) => {
      changed = () => {
        if (condition() || over) resolve(received);
      };
      changed();
    });
  return {
    socket,
    text: () => received,
    until: (pattern) => when(() => pattern.test(received)),
    ended: () => when(() => over),
  };
}

/** The text of a POST, its body in latin1. */
export function post(path: string, body: string, headers: readonly string[] = []): string {
  const lines = [`POST ${path} HTTP/1.1`, 'Host: test', `Content-Length: ${body.length}`, ...headers];
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
}
