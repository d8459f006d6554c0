/** Wrong orders of answers, made from the right one. */
import type { createReleaseOrder, OrderedAnswer } from '@nereid/scheduler';

export type OrderPlant = 'as they come' | 'lost place';

type ReleaseOrder<A extends OrderedAnswer> = ReturnType<typeof createReleaseOrder<A>>;

export function plantOrder<A extends OrderedAnswer>(
  order: ReleaseOrder<A>,
  plant: OrderPlant | undefined,
): ReleaseOrder<A> {
  if (plant === undefined) return order;
  const changed: Partial<ReleaseOrder<A>> = plant === 'as they come' ? asTheyCome(order) : losingPlaces(order);
  return Object.create(order, Object.getOwnPropertyDescriptors(changed));
}

function asTheyCome<A extends OrderedAnswer>(order: ReleaseOrder<A>): Partial<ReleaseOrder<A>> {
  return {
    answered(answer) {
      order.answered(answer);
      return [answer];
    },
    ended(id) {
      order.ended(id);
      return [];
    },
  };
}

/** What waits again begins anew at the end. */
function losingPlaces<A extends OrderedAnswer>(order: ReleaseOrder<A>): Partial<ReleaseOrder<A>> {
  const released: A[] = [];
  const withReleased = (answers: readonly A[]) => [...released.splice(0), ...answers];
  return {
    waitsAgain: (id) => void released.push(...order.dropped(id)),
    answered: (answer) => withReleased(order.answered(answer)),
    ended: (id) => withReleased(order.ended(id)),
    dropped: (id) => withReleased(order.dropped(id)),
  };
}
