import type { Route } from './restrict-routes.ts';
import {
  cudaRegister,
  cudaStatus,
  cudaUnregister,
  type SharedMemoryContext,
  systemRegister,
  systemStatus,
  systemUnregister,
} from './shared-memory.ts';

type Answer = (context: SharedMemoryContext, ...rest: Parameters<Route[2]>) => void;

/** With and without the name of a region. */
const PLACES = ['', '/region/:region(^.+$)'];

/** Triton's routes of shared memory (extension_shared_memory.md of its protocol documents). */
export function sharedMemoryRoutes(context: SharedMemoryContext): readonly Route[] {
  const routes = (method: 'GET' | 'POST', kind: string, action: string, answer: Answer) =>
    PLACES.map((place): Route => {
      return [method, `/v2/${kind}sharedmemory${place}/${action}`, (request, reply) => answer(context, request, reply)];
    });
  return [
    ...routes('GET', 'system', 'status', systemStatus),
    ...routes('POST', 'system', 'register', systemRegister),
    ...routes('POST', 'system', 'unregister', systemUnregister),
    ...routes('GET', 'cuda', 'status', cudaStatus),
    ...routes('POST', 'cuda', 'register', cudaRegister),
    ...routes('POST', 'cuda', 'unregister', cudaUnregister),
  ];
}
