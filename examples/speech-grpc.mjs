// Segments of speech in a file, sent as one gRPC stream; the frames do not wait for each other's answers:
//   node examples/speech-grpc.mjs [HOST:PORT [FILE]]
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { credentials, loadPackageDefinition } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { printSegments, readFrames, SPEECH_FILE } from './speech.mjs';

const [address = 'localhost:8001', file = SPEECH_FILE] = process.argv.slice(2);
// Triton's own files of these names will do as well.
const folder = (name) => fileURLToPath(new URL(`../packages/${name}/proto`, import.meta.url));
const proto = loadSync('grpc_service.proto', { keepCase: true, includeDirs: [folder('gateway'), folder('config')] });
const { GRPCInferenceService } = loadPackageDefinition(proto).inference;

const frames = readFrames(file);
const id = randomUUID();
const client = new GRPCInferenceService(address, credentials.createInsecure());
const stream = client.ModelStreamInfer();
for (const [index, frame] of frames.entries()) {
  stream.write({
    model_name: 'silero_vad',
    parameters: {
      sequence_id: { string_param: id },
      sequence_start: { bool_param: index === 0 },
      sequence_end: { bool_param: index === frames.length - 1 },
    },
    inputs: [{ name: 'audio', datatype: 'FP32', shape: [1, frame.length] }],
    raw_input_contents: [Buffer.from(frame.buffer)],
  });
}
stream.end();

async function* probabilities() {
  for await (const { error_message: error, infer_response: response } of stream) {
    if (error) throw new Error(error);
    yield response.raw_output_contents[0].readFloatLE(0);
  }
}

await printSegments(probabilities());
client.close();
