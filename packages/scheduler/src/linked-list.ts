/** Where a value stands in its list. The links belong to the list. */
export interface Link<T> {
  readonly value: T;
  previous: Link<T> | undefined;
  next: Link<T> | undefined;
}

/** Values in an order of their own, of which any leaves or comes in one step. */
export interface LinkedList<T> {
  readonly length: number;
  readonly first: Link<T> | undefined;
  push(value: T): Link<T>;
  /** Puts it in front of another, or at the end where that is undefined. */
  insertBefore(value: T, next: Link<T> | undefined): Link<T>;
  /** Of one that is in this list. */
  remove(link: Link<T>): void;
  shift(): T | undefined;
}

export function createLinkedList<T>(): LinkedList<T> {
  let length = 0;
  let first: Link<T> | undefined;
  let last: Link<T> | undefined;

  const insertBefore = (value: T, next: Link<T> | undefined): Link<T> => {
    const link: Link<T> = { value, previous: next === undefined ? last : next.previous, next };
    if (link.previous === undefined) first = link;
    else link.previous.next = link;
    if (next === undefined) last = link;
    else next.previous = link;
    length++;
    return link;
  };

  const remove = ({ previous, next }: Link<T>) => {
    if (previous === undefined) first = next;
    else previous.next = next;
    if (next === undefined) last = previous;
    else next.previous = previous;
    length--;
  };

  return {
    get length() {
      return length;
    },
    get first() {
      return first;
    },
    push: (value) => insertBefore(value, undefined),
    insertBefore,
    remove,
    shift() {
      const link = first;
      if (link !== undefined) remove(link);
      return link?.value;
    },
  };
}
