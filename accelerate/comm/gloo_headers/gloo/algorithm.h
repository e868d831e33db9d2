#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>
