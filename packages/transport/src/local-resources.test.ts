import { createLocalResources } from './local-resources.ts';
import { sharedResourcesContract } from './shared-resources-contract.ts';

sharedResourcesContract('in one process', () => {
  const resources = createLocalResources();
  const nextTurn = () => new Promise((resolve) => setImmediate(resolve));
  return { of: async () => resources, waits: nextTurn };
});
