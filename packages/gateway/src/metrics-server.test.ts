import { addSampledMetric, createLog, createRegistry } from '@nereid/runtime';
import { afterEach, describe, expect, it } from 'vitest';
import { createMetricsServer, type MetricsServer } from './metrics-server.ts';

let server: MetricsServer | undefined;
afterEach(() => server?.close());

async function serve(failing = false): Promise<{ readonly url: string }> {
  const registry = createRegistry();
  addSampledMetric(registry, {
    name: 'nv_inference_count',
    help: 'h',
    type: 'counter',
    labelNames: ['model'],
    samples: () => {
      if (failing) throw new Error('no samples');
      return [{ labels: { model: 'm' }, value: 3 }];
    },
  });
  server = createMetricsServer({
    registry,
    address: '127.0.0.1',
    port: 0,
    live: () => true,
    ready: () => false,
    log: createLog({ level: 'silent' }),
  });
  return server.listen();
}

describe('the metrics port', () => {
  it.each<readonly [string, string, number, string, string | null]>([
    [
      'GET',
      '/metrics',
      200,
      '# HELP nv_inference_count h\n# TYPE nv_inference_count counter\nnv_inference_count{model="m"} 3\n',
      'text/plain; version=0.0.4; charset=utf-8',
    ],
    [
      'GET',
      '/metrics?x=1',
      200,
      '# HELP nv_inference_count h\n# TYPE nv_inference_count counter\nnv_inference_count{model="m"} 3\n',
      'text/plain; version=0.0.4; charset=utf-8',
    ],
    ['GET', '/v2/health/live', 200, '', 'text/plain'],
    ['GET', '/v2/health/ready', 400, '', 'text/plain'],
    ['GET', '/', 200, '', 'text/plain; charset=utf-8'],
    ['GET', '/metrics/', 200, '', 'text/plain; charset=utf-8'],
    ['GET', '/v2/models/m', 200, '', 'text/plain; charset=utf-8'],
    ['POST', '/metrics', 405, '', null],
    ['HEAD', '/metrics', 405, '', null],
    ['DELETE', '/anything', 405, '', null],
  ])('%s %s is %i', async (method, path, status, text, contentType) => {
    const { url } = await serve();
    const answer = await fetch(url + path, { method });
    expect([answer.status, await answer.text(), answer.headers.get('content-type')]).toEqual([
      status,
      text,
      contentType,
    ]);
  });

  it('says why metrics could not be collected', async () => {
    const { url } = await serve(true);
    const answer = await fetch(`${url}/metrics`);
    expect([answer.status, await answer.text()]).toEqual([500, 'no samples']);
  });

  it('says which port another process has, and the flag', async () => {
    const { url } = await serve();
    const port = Number(new URL(url).port);
    const second = createMetricsServer({
      registry: createRegistry(),
      address: '127.0.0.1',
      port,
      live: () => true,
      ready: () => true,
      log: createLog({ level: 'silent' }),
    });
    await expect(second.listen()).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message:
        `cannot listen on 127.0.0.1:${port}: another process has that port; ` +
        'choose another with --metrics-port or --metrics-address',
    });
  });
});
