/**
 * Usage: node grpc-echo-server.mjs HTTP_PORT GRPC_PORT. Gives each message over gRPC back, on node:http2 alone, and
 * answers 200 over HTTP once it does.
 */
import { createServer } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';

const HEADER = { ':status': 200, 'content-type': 'application/grpc' };
const TRAILER = { 'grpc-status': '0' };

const [, , port, grpcPort] = process.argv;
const server = createHttp2Server();
server.on('stream', (stream) => {
  const chunks = [];
  stream.on('data', (chunk) => chunks.push(chunk));
  stream.on('end', () => {
    stream.respond(HEADER, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers(TRAILER));
    // A message's frame is the same in both directions.
    stream.end(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
  });
  // A client that leaves is nobody's fault.
  stream.on('error', () => {});
});
server.listen(Number(grpcPort), '127.0.0.1', () => {
  createServer((_request, response) => response.end()).listen(Number(port), '127.0.0.1');
});
