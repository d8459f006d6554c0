/**
 * Requests that this gateway is still receiving, for models whose batches are closed early: their owners
 * are told with each request that goes there, so that no batch leaves without one that is about to come.
 */
export interface ComingRequests {
  /** A request for the model has begun to come; call what is returned, more often does no harm, once it is read or will not be. */
  begin(model: string): () => void;
  of(model: string): number;
}

export function createComingRequests(): ComingRequests {
  /** Of models of which some come: empty, and so free to ask, where no model closes batches early. */
  const requests = new Map<string, number>();

  return {
    begin(model) {
      requests.set(model, (requests.get(model) ?? 0) + 1);
      let isComing = true;
      return () => {
        if (!isComing) return;
        isComing = false;
        const left = (requests.get(model) ?? 1) - 1;
        if (left === 0) requests.delete(model);
        else requests.set(model, left);
      };
    },
    of: (model) => (requests.size === 0 ? 0 : (requests.get(model) ?? 0)),
  };
}
