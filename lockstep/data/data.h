// All of tf.data: datasets, their distribution, and readers of files.
#pragma once

#include "lockstep/data/csv_dataset.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/dataset_views.h"
#include "lockstep/data/distributed_dataset.h"
#include "lockstep/data/experimental.h"
#include "lockstep/data/fashion_mnist.h"
#include "lockstep/data/files.h"
#include "lockstep/data/keras_datasets.h"
#include "lockstep/data/numpy_files.h"
