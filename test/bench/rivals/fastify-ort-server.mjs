// node fastify-ort-server.mjs PORT MODELS: Fastify with onnxruntime-node in one process, each request one run.
import { serveV2 } from './fastify-v2.mjs';
import { loadModels } from './onnx-models.mjs';

const [port, folder] = process.argv.slice(2);
const models = await loadModels(folder);
await serveV2(Number(port), (model, inputs) => models.get(model)?.(inputs));
