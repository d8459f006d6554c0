import { createDice } from './dice.mjs';
import { inferCall } from './grpc-infer.mjs';
import { createGrpcWire } from './grpc-wire.mjs';
import { judgeGrpc } from './judge-grpc.mjs';
import { writeFrames } from './mutate-grpc.mjs';
import { buildGrpc, planGrpc } from './plan-grpc.mjs';

const SHOWN_BYTES = 2_000;

/** Calls over gRPC to a gateway. */
export function openGrpcDoor({ grpc }) {
  const wire = createGrpcWire(`http://${grpc}`);

  const send = async (call) => {
    const result = await wire.exchange(call);
    return { call, result, statuses: [`grpc ${result.code ?? 'none'}`], problem: judgeGrpc(call, result) };
  };

  return {
    name: 'grpc',
    plan: planGrpc,
    attempt: (plan) => send(buildGrpc(plan)),
    async probe() {
      const call = { ...inferCall(createDice(1)), headers: {} };
      writeFrames(call);
      return (await send(call)).problem;
    },
    describe: ({ call, result }) =>
      [
        `${call.path} ${JSON.stringify(call.headers)}, expected ${call.expect}`,
        ...call.frames.map(({ flag, body, announced }) => `${flag} ${announced ?? body.length} ${shown(body)}`),
        `→ ${result.code} ${result.text} ${JSON.stringify(result.headers)}`,
        ...result.messages.map((message) => `→ ${shown(message)}`),
      ].join('\n'),
    record: ({ call, result }) => ({
      path: call.path,
      headers: call.headers,
      expected: call.expect,
      frames: call.frames.map(({ flag, body, announced }) => ({ flag, announced, base64: body.toString('base64') })),
      code: result.code,
      text: result.text,
      answers: result.messages.map((message) => message.toString('base64')),
    }),
    close: wire.close,
  };
}

function shown(bytes) {
  const hex = bytes.toString('hex', 0, SHOWN_BYTES);
  return bytes.length > SHOWN_BYTES ? `${hex}… (${bytes.length} bytes)` : hex;
}
