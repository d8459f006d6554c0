export type { StreamedAnswer } from './answer-queue.ts';
export { createGateway, type Gateway, type GatewayLimits, type GatewayOptions } from './gateway.ts';
export { createHttpServer, type HttpServer, type HttpServerOptions } from './http/server.ts';
export { createJobs, type Jobs, type JobsParts } from './jobs.ts';
export { createMetricsServer, type MetricsServer, type MetricsServerOptions } from './metrics-server.ts';
export type { ModelFound, ModelLookup } from './model-lookup.ts';
