import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/** The metrics and health of whichever worker serves, at one address. */
export interface MetricsFront {
  readonly url: string;
  /** Of the worker that serves from now on; undefined for none. */
  readonly to: (port: number | undefined) => void;
}

/** Listens; throws where the address cannot be had. */
export async function openMetricsFront(address: string, port: number): Promise<MetricsFront> {
  let target: number | undefined;
  const server = createServer((asked, answer) => {
    const unavailable = () => {
      if (!answer.headersSent) answer.writeHead(503, { 'content-type': 'text/plain' });
      answer.end('the worker does not serve yet\n');
    };
    asked.resume();
    if (target === undefined) {
      unavailable();
      return;
    }
    const { method, url: path, headers } = asked;
    const passed = request({ host: '127.0.0.1', port: target, method, path, headers, agent: false }, (given) => {
      answer.writeHead(given.statusCode ?? 502, given.headers);
      given.pipe(answer);
    });
    passed.on('error', unavailable).end();
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, address, resolve);
  });
  const bound = server.address() as AddressInfo;
  const host = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
  return {
    url: `http://${host}:${bound.port}`,
    to: (next) => {
      target = next;
    },
  };
}
