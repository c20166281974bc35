// All of tf.data: datasets, their distribution, and what reads them from files.
#pragma once

#include "lockstep/data/dataset.h"
#include "lockstep/data/distributed_dataset.h"
#include "lockstep/data/fashion_mnist.h"
#include "lockstep/data/files.h"
