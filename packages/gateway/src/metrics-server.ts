import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorInfo } from '@nereid/protocol';
import type { Log, Registry } from '@nereid/runtime';
import { listenError } from './listen-error.ts';
import { listenerUrl } from './listener-url.ts';

export interface MetricsServerOptions {
  readonly registry: Registry;
  readonly address: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly live: () => boolean;
  readonly ready: () => boolean;
  readonly log: Log;
}

export interface MetricsServer {
  /** Throws UNAVAILABLE, with the fix in its text, where the address cannot be had. */
  listen(): Promise<{ readonly url: string }>;
  close(): Promise<void>;
}

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';
/** As the recorded cases have it. */
const OTHER_CONTENT_TYPE = 'text/plain; charset=utf-8';

/**
 * The metrics port: `GET /metrics` in Prometheus text, the two health paths, 405 for any other
 * method and, as in Triton, an empty 200 for any other path.
 */
export function createMetricsServer(options: MetricsServerOptions): MetricsServer {
  const server = createServer((request, response) => {
    if (request.method !== 'GET') return answer(response, 405, '', '');
    const [path = ''] = (request.url ?? '').split('?', 1);
    if (path === '/metrics') return sendMetrics(options, response);
    if (path === '/v2/health/live') return answer(response, options.live() ? 200 : 400, 'text/plain', '');
    if (path === '/v2/health/ready') return answer(response, options.ready() ? 200 : 400, 'text/plain', '');
    return answer(response, 200, OTHER_CONTENT_TYPE, '');
  });

  return {
    listen() {
      const { address, port } = options;
      return new Promise((resolve, reject) => {
        const refuse = (cause: Error) => reject(listenError(cause, address, port, 'metrics'));
        server.once('error', refuse);
        server.listen(port, address, () => {
          server.off('error', refuse);
          resolve({ url: listenerUrl(server.address() as AddressInfo) });
        });
      });
    },
    close() {
      return new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}

function sendMetrics({ registry, log }: MetricsServerOptions, response: ServerResponse): void {
  registry.metrics().then(
    (text) => answer(response, 200, CONTENT_TYPE, text),
    (thrown: unknown) => {
      log.error({ err: thrown }, 'collecting metrics failed');
      answer(response, 500, 'text/plain', errorInfo(thrown).message);
    },
  );
}

function answer(response: ServerResponse<IncomingMessage>, status: number, contentType: string, text: string): void {
  if (contentType !== '') response.setHeader('Content-Type', contentType);
  response.writeHead(status, { 'Content-Length': Buffer.byteLength(text) }).end(text);
}
