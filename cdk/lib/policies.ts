// generated from deploy/iam by tools/ways/generate.py; change it there

/** Controller policies by name, with `${name}` where values belong. */
export const controllerPolicies: Record<string, object> = {
  "node-lifecycle": {
    "Version": "2012-10-17",
    "Statement": [
      {
        "Sid": "AllowScopedEC2InstanceAccessActions",
        "Effect": "Allow",
        "Action": [
          "ec2:RunInstances",
          "ec2:CreateFleet"
        ],
        "Resource": [
          "arn:${partition}:ec2:${region}::image/*",
          "arn:${partition}:ec2:${region}::snapshot/*",
          "arn:${partition}:ec2:${region}:*:security-group/*",
          "arn:${partition}:ec2:${region}:*:subnet/*",
          "arn:${partition}:ec2:${region}:*:capacity-reservation/*",
          "arn:${partition}:ec2:${region}:*:placement-group/*"
        ]
      },
      {
        "Sid": "AllowScopedEC2LaunchTemplateAccessActions",
        "Effect": "Allow",
        "Action": [
          "ec2:RunInstances",
          "ec2:CreateFleet"
        ],
        "Resource": "arn:${partition}:ec2:${region}:*:launch-template/*",
        "Condition": {
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/${cluster_name}": "owned"
          },
          "StringLike": {
            "aws:ResourceTag/karpenter.sh/nodepool": "*"
          }
        }
      },
      {
        "Sid": "AllowScopedEC2InstanceActionsWithTags",
        "Effect": "Allow",
        "Action": [
          "ec2:RunInstances",
          "ec2:CreateFleet",
          "ec2:CreateLaunchTemplate"
        ],
        "Resource": [
          "arn:${partition}:ec2:${region}:*:fleet/*",
          "arn:${partition}:ec2:${region}:*:instance/*",
          "arn:${partition}:ec2:${region}:*:volume/*",
          "arn:${partition}:ec2:${region}:*:network-interface/*",
          "arn:${partition}:ec2:${region}:*:launch-template/*",
          "arn:${partition}:ec2:${region}:*:spot-instances-request/*"
        ],
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/kubernetes.io/cluster/${cluster_name}": "owned",
            "aws:RequestTag/eks:eks-cluster-name": "${cluster_name}"
          },
          "StringLike": {
            "aws:RequestTag/karpenter.sh/nodepool": "*"
          }
        }
      },
      {
        "Sid": "AllowScopedResourceCreationTagging",
        "Effect": "Allow",
        "Action": "ec2:CreateTags",
        "Resource": [
          "arn:${partition}:ec2:${region}:*:fleet/*",
          "arn:${partition}:ec2:${region}:*:instance/*",
          "arn:${partition}:ec2:${region}:*:volume/*",
          "arn:${partition}:ec2:${region}:*:network-interface/*",
          "arn:${partition}:ec2:${region}:*:launch-template/*",
          "arn:${partition}:ec2:${region}:*:spot-instances-request/*"
        ],
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/kubernetes.io/cluster/${cluster_name}": "owned",
            "aws:RequestTag/eks:eks-cluster-name": "${cluster_name}",
            "ec2:CreateAction": [
              "RunInstances",
              "CreateFleet",
              "CreateLaunchTemplate"
            ]
          },
          "StringLike": {
            "aws:RequestTag/karpenter.sh/nodepool": "*"
          }
        }
      },
      {
        "Sid": "AllowScopedResourceTagging",
        "Effect": "Allow",
        "Action": "ec2:CreateTags",
        "Resource": "arn:${partition}:ec2:${region}:*:instance/*",
        "Condition": {
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/${cluster_name}": "owned"
          },
          "StringLike": {
            "aws:ResourceTag/karpenter.sh/nodepool": "*"
          },
          "StringEqualsIfExists": {
            "aws:RequestTag/eks:eks-cluster-name": "${cluster_name}"
          },
          "ForAllValues:StringEquals": {
            "aws:TagKeys": [
              "eks:eks-cluster-name",
              "karpenter.sh/nodeclaim",
              "Name"
            ]
          }
        }
      },
      {
        "Sid": "AllowScopedDeletion",
        "Effect": "Allow",
        "Action": [
          "ec2:TerminateInstances",
          "ec2:DeleteLaunchTemplate"
        ],
        "Resource": [
          "arn:${partition}:ec2:${region}:*:instance/*",
          "arn:${partition}:ec2:${region}:*:launch-template/*"
        ],
        "Condition": {
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/${cluster_name}": "owned"
          },
          "StringLike": {
            "aws:ResourceTag/karpenter.sh/nodepool": "*"
          }
        }
      },
      {
        "Sid": "AllowScopedReboot",
        "Effect": "Allow",
        "Action": "ec2:RebootInstances",
        "Resource": "arn:${partition}:ec2:${region}:*:instance/*",
        "Condition": {
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/${cluster_name}": "owned"
          },
          "StringLike": {
            "aws:ResourceTag/karpenter.sh/nodepool": "*"
          }
        }
      }
    ]
  },
  "iam-integration": {
    "Version": "2012-10-17",
    "Statement": [
      {
        "Sid": "AllowPassingInstanceRole",
        "Effect": "Allow",
        "Action": "iam:PassRole",
        "Resource": "${node_role_arn}",
        "Condition": {
          "StringEquals": {
            "iam:PassedToService": [
              "ec2.amazonaws.com",
              "ec2.amazonaws.com.cn"
            ]
          }
        }
      },
      {
        "Sid": "AllowScopedInstanceProfileCreationActions",
        "Effect": "Allow",
        "Action": "iam:CreateInstanceProfile",
        "Resource": "arn:${partition}:iam::${account_id}:instance-profile/*",
        "Condition": {
          "StringEquals": {
            "aws:RequestTag/kubernetes.io/cluster/${cluster_name}": "owned",
            "aws:RequestTag/eks:eks-cluster-name": "${cluster_name}",
            "aws:RequestTag/topology.kubernetes.io/region": "${region}"
          },
          "StringLike": {
            "aws:RequestTag/karpenter.k8s.aws/ec2nodeclass": "*"
          }
        }
      },
      {
        "Sid": "AllowScopedInstanceProfileTagActions",
        "Effect": "Allow",
        "Action": "iam:TagInstanceProfile",
        "Resource": "arn:${partition}:iam::${account_id}:instance-profile/*",
        "Condition": {
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/${cluster_name}": "owned",
            "aws:ResourceTag/topology.kubernetes.io/region": "${region}",
            "aws:RequestTag/kubernetes.io/cluster/${cluster_name}": "owned",
            "aws:RequestTag/eks:eks-cluster-name": "${cluster_name}",
            "aws:RequestTag/topology.kubernetes.io/region": "${region}"
          },
          "StringLike": {
            "aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass": "*",
            "aws:RequestTag/karpenter.k8s.aws/ec2nodeclass": "*"
          }
        }
      },
      {
        "Sid": "AllowScopedInstanceProfileActions",
        "Effect": "Allow",
        "Action": [
          "iam:AddRoleToInstanceProfile",
          "iam:RemoveRoleFromInstanceProfile",
          "iam:DeleteInstanceProfile"
        ],
        "Resource": "arn:${partition}:iam::${account_id}:instance-profile/*",
        "Condition": {
          "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/${cluster_name}": "owned",
            "aws:ResourceTag/topology.kubernetes.io/region": "${region}"
          },
          "StringLike": {
            "aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass": "*"
          }
        }
      }
    ]
  },
  "eks-integration": {
    "Version": "2012-10-17",
    "Statement": [
      {
        "Sid": "AllowAPIServerEndpointDiscovery",
        "Effect": "Allow",
        "Action": "eks:DescribeCluster",
        "Resource": "arn:${partition}:eks:${region}:${account_id}:cluster/${cluster_name}"
      }
    ]
  },
  "interruption": {
    "Version": "2012-10-17",
    "Statement": [
      {
        "Sid": "AllowInterruptionQueueActions",
        "Effect": "Allow",
        "Action": [
          "sqs:DeleteMessage",
          "sqs:GetQueueUrl",
          "sqs:ReceiveMessage"
        ],
        "Resource": "${queue_arn}"
      }
    ]
  },
  "zonal-shift": {
    "Version": "2012-10-17",
    "Statement": [
      {
        "Sid": "AllowZonalShiftStatusReadOnly",
        "Effect": "Allow",
        "Action": "arc-zonal-shift:GetManagedResource",
        "Resource": "*",
        "Condition": {
          "StringEquals": {
            "arc-zonal-shift:ResourceIdentifier": "arn:${partition}:eks:${region}:${account_id}:cluster/${cluster_name}"
          }
        }
      }
    ]
  },
  "resource-discovery": {
    "Version": "2012-10-17",
    "Statement": [
      {
        "Sid": "AllowRegionalReadActions",
        "Effect": "Allow",
        "Action": [
          "ec2:DescribeCapacityReservations",
          "ec2:DescribeImages",
          "ec2:DescribeInstances",
          "ec2:DescribeInstanceStatus",
          "ec2:DescribeInstanceTypeOfferings",
          "ec2:DescribeInstanceTypes",
          "ec2:DescribeLaunchTemplates",
          "ec2:DescribePlacementGroups",
          "ec2:DescribeSecurityGroups",
          "ec2:DescribeSpotPriceHistory",
          "ec2:DescribeSubnets"
        ],
        "Resource": "*",
        "Condition": {
          "StringEquals": {
            "aws:RequestedRegion": "${region}"
          }
        }
      },
      {
        "Sid": "AllowSSMReadActions",
        "Effect": "Allow",
        "Action": "ssm:GetParameter",
        "Resource": "arn:${partition}:ssm:${region}::parameter/aws/service/*"
      },
      {
        "Sid": "AllowPricingReadActions",
        "Effect": "Allow",
        "Action": "pricing:GetProducts",
        "Resource": "*"
      },
      {
        "Sid": "AllowUnscopedInstanceProfileListAction",
        "Effect": "Allow",
        "Action": "iam:ListInstanceProfiles",
        "Resource": "*"
      },
      {
        "Sid": "AllowInstanceProfileReadActions",
        "Effect": "Allow",
        "Action": "iam:GetInstanceProfile",
        "Resource": "arn:${partition}:iam::${account_id}:instance-profile/*"
      }
    ]
  }
};

/** Who may be a node. */
export const nodeTrust = {
  "Version": "2012-10-17",
  "Statement": [
    {
      "Effect": "Allow",
      "Principal": {
        "Service": "ec2.${url_suffix}"
      },
      "Action": "sts:AssumeRole"
    },
    {
      "Effect": "Allow",
      "Principal": {
        "Service": "pods.eks.amazonaws.com"
      },
      "Action": [
        "sts:AssumeRole",
        "sts:TagSession"
      ]
    }
  ]
};

/** Names of AWS's own policies for nodes. */
export const nodePolicies: string[] = [
  "AmazonEKS_CNI_Policy",
  "AmazonEKSWorkerNodePolicy",
  "AmazonEC2ContainerRegistryPullOnly",
  "AmazonSSMManagedInstanceCore"
];

/** Who may send to the queue of interruptions. */
export const queuePolicy = {
  "Version": "2012-10-17",
  "Statement": [
    {
      "Sid": "EC2InterruptionPolicy",
      "Effect": "Allow",
      "Principal": {
        "Service": [
          "events.amazonaws.com",
          "sqs.amazonaws.com"
        ]
      },
      "Action": "sqs:SendMessage",
      "Resource": "${queue_arn}"
    },
    {
      "Sid": "DenyHTTP",
      "Effect": "Deny",
      "Principal": "*",
      "Action": "sqs:*",
      "Resource": "${queue_arn}",
      "Condition": {
        "Bool": {
          "aws:SecureTransport": "false"
        }
      }
    }
  ]
};

/** What arrives in the queue of interruptions. */
export const eventRules: Record<string, { source: string[]; "detail-type": string[] }> = {
  "ScheduledChange": {
    "source": [
      "aws.health"
    ],
    "detail-type": [
      "AWS Health Event"
    ]
  },
  "SpotInterruption": {
    "source": [
      "aws.ec2"
    ],
    "detail-type": [
      "EC2 Spot Instance Interruption Warning"
    ]
  },
  "Rebalance": {
    "source": [
      "aws.ec2"
    ],
    "detail-type": [
      "EC2 Instance Rebalance Recommendation"
    ]
  },
  "InstanceStateChange": {
    "source": [
      "aws.ec2"
    ],
    "detail-type": [
      "EC2 Instance State-change Notification"
    ]
  },
  "CapacityReservationInterruption": {
    "source": [
      "aws.ec2"
    ],
    "detail-type": [
      "EC2 Capacity Reservation Instance Interruption Warning"
    ]
  }
};
