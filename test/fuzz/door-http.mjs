import { createDice } from './dice.mjs';
import { drawInfer } from './draw-infer.mjs';
import { KEEPING_DELIVERY, writeBody } from './http-deliver.mjs';
import { writeInfer } from './http-infer.mjs';
import { createWire } from './http-wire.mjs';
import { judgeHttp } from './judge-http.mjs';
import { MODELS } from './models.mjs';
import { buildHttp, planHttp } from './plan-http.mjs';

const SHOWN_BYTES = 2_000;

/** Requests over HTTP to a gateway. */
export function openHttpDoor({ http }, { bodyBytesMax }) {
  const wire = createWire(http);

  const send = async ({ request, delivery }) => {
    const result = await wire.exchange(delivery);
    const statuses = result.answers.map(({ status }) => `http ${status}`);
    const attempt = { request, delivery, result, statuses, problem: judgeHttp(request, delivery, result) };
    const [answer] = result.answers;
    if (attempt.problem !== undefined || request.next === undefined || request.expect !== 'valid') return attempt;
    const next = { ...request.next(answer), headers: [] };
    const after = await send(plain(next));
    return { ...after, statuses: [...statuses, ...after.statuses] };
  };

  return {
    name: 'http',
    plan: planHttp,
    attempt: (plan) => send(buildHttp(plan, { bodyBytesMax })),
    async probe() {
      const ask = drawInfer(createDice(1), MODELS[0]);
      const { problem } = await send(plain(writeInfer(createDice(1), ask)));
      return problem;
    },
    describe: ({ request, delivery, result }) =>
      [
        `${request.kind}, expected ${request.expect}`,
        ...delivery.pieces.map((piece) => (Buffer.isBuffer(piece) ? shown(piece) : `(${piece.pauseMs} ms)`)),
        ...result.answers.map(({ status, body }) => `→ ${status} ${shown(body)}`),
      ].join('\n'),
    record: ({ request, delivery, result }) => ({
      kind: request.kind,
      expected: request.expect,
      path: request.path,
      sent: delivery.pieces.map((piece) => (Buffer.isBuffer(piece) ? { base64: piece.toString('base64') } : piece)),
      answers: result.answers.map(({ status, body }) => ({ status, body: body.toString('latin1', 0, SHOWN_BYTES) })),
    }),
    close: wire.close,
  };
}

function plain(request) {
  writeBody(request, createDice(0));
  return { request, delivery: KEEPING_DELIVERY.plain(request) };
}

function shown(bytes) {
  const text = bytes.toString('latin1', 0, SHOWN_BYTES);
  return bytes.length > SHOWN_BYTES ? `${text}… (${bytes.length} bytes)` : text;
}
