import Fastify from 'fastify';
import { readRequest, writeResponse } from './v2-body.mjs';

const BODY_MAX_BYTES = 64 * 1024 * 1024;

/**
 * A Fastify server that speaks v2 infer, in front of whatever runs the models.
 *
 * @param {(model: string, inputs: object) => Promise<object> | undefined} run undefined for a model that is not there
 */
export async function serveV2(port, run) {
  const app = Fastify({ bodyLimit: BODY_MAX_BYTES });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.get('/v2/health/ready', (_request, reply) => reply.code(200).send());
  app.post('/v2/models/:model/infer', async (request, reply) => {
    const { model } = request.params;
    const { inputs, wantsBinary } = readRequest(request.body, request.headers);
    const running = run(model, inputs);
    if (running === undefined) return reply.code(404).send({ error: `model '${model}' is not found` });
    const { body, headers } = writeResponse(model, await running, wantsBinary);
    return reply.headers(headers).send(body);
  });
  await app.listen({ port, host: '127.0.0.1' });
  return app;
}
