// RemoteMonitor: the logs of each epoch, sent to a server.
#pragma once

#include <string>

#include "lockstep/keras/callbacks/callback.h"

namespace lockstep::callbacks {

struct RemoteMonitorOptions {
  std::string root = "http://localhost:9000";
  std::string path = "/publish/epoch/end/";
  std::string field = "data";  // of the form that is sent
  Json headers = nullptr;      // {"name": "value", …}, added to those of HTTP
  bool send_as_json = false;   // the body is the JSON object instead of a form with it
};
// POSTs {"epoch": 0, "loss": …} at the end of each epoch; with several workers the chief does. A server that does not
// answer within ten seconds costs a warning. Throws InvalidArgument unless root begins with http://.
keras::CallbackPtr RemoteMonitor(RemoteMonitorOptions options = {});

}  // namespace lockstep::callbacks
