import { type Coordination } from './coordination.js';
import { type Generations } from './generations.js';
import { type ReadModel } from './read-model.js';

/** A store of lists, which also keeps their generations and coordinates the processes that make them. */
export interface ReadModelStore extends ReadModel, Generations, Coordination {}
