// Callbacks of training that need no data: templates, formats, files.
#include <unistd.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/keras/callbacks/csv_logger.h"
#include "lockstep/keras/callbacks/monitors.h"
#include "lockstep/saving/model_checkpoint.h"

namespace lockstep::callbacks {
namespace {

TEST(Callbacks, FilepathTemplates) {
  const Logs logs{{"val_loss", 0.12345}, {"loss", 2}};
  EXPECT_EQ(format_filepath("m{epoch:02d}-{val_loss:.2f}.keras", 2, {}, logs), "m03-0.12.keras");
  EXPECT_EQ(format_filepath("{{x}}{epoch}-{batch}-{loss}.h5", 0, 6, logs), "{x}1-7-2.0.h5");
  EXPECT_THROW(format_filepath("{val_acc}.keras", 0, {}, logs), Error);
  EXPECT_THROW(format_filepath("{epoch:02q}.keras", 0, {}, logs), Error);
  EXPECT_THROW(format_filepath("{epoch.keras", 0, {}, logs), Error);
  EXPECT_THROW(ModelCheckpoint("m.ckpt"), Error);
  EXPECT_THROW(ModelCheckpoint("m.keras", {.save_weights_only = true}), Error);
  EXPECT_THROW(SaveFrequency("batch"), Error);
}

TEST(Callbacks, SavesAreCountedOverEpochs) {
  SaveFrequency every(3);
  std::vector<int> due;
  for (int i = 0; i < 10; ++i) {
    if (every.due(i % 4)) due.push_back(i);
  }
  EXPECT_EQ(due, (std::vector<int>{2, 5, 8}));
}

TEST(Callbacks, CsvRows) {
  const std::string path = ::testing::TempDir() + "/log" + std::to_string(getpid()) + ".csv";
  std::filesystem::remove(path);
  const auto run = [&](bool append, int epoch) {
    const auto logger = CSVLogger(path, {.append = append});
    logger->on_train_begin({});
    Logs logs{{"loss", 0.5}, {"accuracy", 1}};
    logger->on_epoch_end(epoch, logs);
    logger->on_train_end({});
  };
  run(false, 0);
  run(true, 1);
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}),
            "epoch,accuracy,loss,val_accuracy,val_loss\r\n0,1.0,0.5,NA,NA\r\n1,1.0,0.5,NA,NA\r\n");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace lockstep::callbacks
